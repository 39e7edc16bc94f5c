#!/usr/bin/env python3
"""Edgebed's command line: ``run_testbed.py run PROFILE.toml``."""

import os
import sys


def main() -> int:
    from testbed.processes.templates import early  # imports next to nothing

    try:
        early.begin_for(sys.argv[1:])  # torch is imported beside the command line's own work
        from testbed.cli.main import main

        return main()
    except KeyboardInterrupt:  # outside of a run, which has its own handler
        return 130
    except SystemExit as end:  # of the parser: after --help, or a wrong option
        return end.code if isinstance(end.code, int) else 1
    finally:
        early.end()


def script() -> None:
    """Carry out the command line of this process and end it at once.

    All files are written and all processes ended by then; taking the interpreter apart would last 0.15 s.
    """
    from testbed.common.terminal import output_stream, plain_text

    output_stream.take_over()
    output_stream.need_output(True)
    code = 1
    try:
        code = main()
        sys.stdout.flush()
    except output_stream.OutputLost as lost:  # not in a run, which goes on without a reader
        code = code or 1
        if not lost.is_reader_gone:
            plain_text.show_error(f"standard output cannot be written: {lost.reason}; free disk space")
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    from testbed.common.finders import own_packages

    own_packages.confine()
    script()
