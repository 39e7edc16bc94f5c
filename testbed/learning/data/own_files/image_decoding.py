"""Decodes one image: of a known format, of a limited number of pixels, to bytes of a fixed size."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from testbed.common.errors import UserError

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "PPM", "TIFF")
"""For other formats, Pillow starts programs (PostScript), or they are rare."""
_MOST_PIXELS = 1 << 26
"""A file of some kilobytes may unpack to more: 67 million pixels are 200 MB."""
_SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageShape:
    """What every image becomes."""

    size: int | None
    """Height and width; None: those that it has."""
    grey: bool

    @property
    def channels(self) -> int:
        return 1 if self.grey else 3


def decoded(where: str, file: IO[bytes], shape: ImageShape) -> npt.NDArray[np.uint8]:
    """Return channels × height × width. Raises UserError, which begins with ``where``."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as of damaged metadata; the pixels are checked here
            with Image.open(file, formats=FORMATS) as image:
                width, height = image.size
                if width * height > _MOST_PIXELS:
                    problem = f"has {width:,} × {height:,} pixels; at most {_MOST_PIXELS:,} are read"
                    raise UserError(f"{where}: {problem}: make it smaller")
                return _pixels(where, image, shape)
    except UserError:
        raise
    except UnidentifiedImageError:
        raise UserError(
            f"{where}: is no image of a known format ({', '.join(FORMATS)}); remove or convert it"
        ) from None
    except Image.DecompressionBombError:
        raise UserError(f"{where}: has more than {_MOST_PIXELS:,} pixels: make it smaller") from None
    except Exception as error:  # noqa: BLE001  decoders raise nearly everything for damaged files
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UserError(f"{where}: cannot be decoded ({reason}); remove it, or get a new copy") from None


def _pixels(where: str, image: Image.Image, shape: ImageShape) -> npt.NDArray[np.uint8]:
    found: Any = image
    if image.mode in _SIXTEEN_BITS:
        found = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif image.mode in ("I", "F"):
        raise UserError(f"{where}: has {image.mode}-type pixels of 32 bits; convert it to 8 or 16 bits")
    elif image.mode == "P":
        found = image.convert("RGBA")
    found = found.convert("L" if shape.grey else "RGB")
    if shape.size is not None and found.size != (shape.size, shape.size):
        found = found.resize((shape.size, shape.size), Image.Resampling.BILINEAR)
    pixels = np.asarray(found, np.uint8)
    return pixels[None] if shape.grey else np.moveaxis(pixels, 2, 0)
