"""JSON schemas of profiles: of an experiment, a device and a link.

They accept whatever the loader accepts. They refuse wrong keys, types, ranges and names; what depends on several keys,
on files or on the fleet is left to the loader.

taplo suggests what is listed in ``anyOf``, but an error there does not say which key is wrong. Where a value may be a
table, ``anyOf`` therefore accepts every table, and ``if``/``then`` checks it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from aggregator.strategies import STRATEGIES
from testbed.common.json_schema import DRAFT, EditorDocs, EditorHints, JsonSchema, reference, table_schema
from testbed.common.parameters import parameter_of, parameters_of
from testbed.common.plugins import Catalogue
from testbed.learning.splits import SPLITS
from testbed.learning.tasks import TASKS
from testbed.learning.tasks.recipe import Recipe
from testbed.learning.tasks.task_entry import TaskEntry
from testbed.loading.profile_files import catalogue
from testbed.loading.renamed_keys import RENAMED_KEYS
from testbed.profile.schema import DeviceGroup, DeviceProfile, Experiment, LinkProfile, name_and_parameters
from testbed.wire.compression_method import NAMES, TOPK_PATTERN

_OWN_CLASS = JsonSchema(type="string", pattern="^[^.:][^:]*:.+$", description="your own, as module:Class")
_PATH = JsonSchema(type="string", pattern=r"\.toml$", description="a path relative to this file")
_ANY_TABLE = JsonSchema(type="object")
_COMPRESSION = JsonSchema(
    any_of=[
        JsonSchema(enum=NAMES),
        JsonSchema(type="string", pattern=f"^{TOPK_PATTERN}$", description="the share F of the numbers, as topk:0.01"),
    ]
)


def experiment_schema() -> JsonSchema:
    """Return the schema of an experiment."""
    groups = table_schema(
        DeviceGroup,
        {
            "profile": _name_path_or_table("devices", "device"),
            "link": _name_path_or_table("links", "link"),
            "compress_updates": _COMPRESSION,
        },
    )
    given = {
        "task": _named("task", TASKS),
        "strategy": _named("strategy", STRATEGIES),
        "devices": JsonSchema(type="array", items=groups),
        "compress_updates": _COMPRESSION,
    }
    whole = table_schema(Experiment, given)
    return msgspec.structs.replace(
        whole,
        schema=DRAFT,
        title="An experiment of Edgebed",
        properties=_with_old_keys(whole),
        definitions={
            "device": table_schema(DeviceProfile),
            "link": table_schema(LinkProfile),
            "split": _named("split", SPLITS, is_required=False),
            **{f"split.{name}": _parameters(name, cls, table_schema(cls)) for name, cls in SPLITS.items()},
            **{f"task.{name}": _parameters(name, cls, _task(cls)) for name, cls in TASKS.items()},
            **{f"strategy.{name}": _parameters(name, cls, table_schema(cls)) for name, cls in STRATEGIES.items()},
        },
    )


def device_schema() -> JsonSchema:
    """Return the schema of a device profile."""
    return msgspec.structs.replace(table_schema(DeviceProfile), schema=DRAFT, title="A device profile of Edgebed")


def link_schema() -> JsonSchema:
    """Return the schema of a link profile."""
    return msgspec.structs.replace(table_schema(LinkProfile), schema=DRAFT, title="A link profile of Edgebed")


def _name_path_or_table(kind: str, definition: str) -> JsonSchema:
    table = reference(definition)
    return JsonSchema(any_of=[JsonSchema(enum=catalogue(kind)), _PATH, table, _ANY_TABLE], if_=_ANY_TABLE, then=table)


def _named(kind: str, classes: Catalogue[Any], *, is_required: bool = True) -> JsonSchema:
    """Return the schema of a name, or of a table with a name and parameters.

    ``is_required``: whether the table must have a name. A name alone is enough for a class without required parameters.
    """
    alone = [name for name, cls in classes.items() if not any(each.required for each in parameters_of(cls))]
    docs = EditorDocs(enum_values=[_title(classes[name]) for name in alone])
    tables = {name: reference(f"{kind}.{name}") for name in classes}
    known = JsonSchema(any_of=[JsonSchema(enum=list(classes)), _OWN_CLASS])
    has_name = JsonSchema(properties={"name": known}, required=["name"] if is_required else None)
    return JsonSchema(
        any_of=[JsonSchema(enum=alone, hints=EditorHints(docs=docs)), _OWN_CLASS, *tables.values(), _ANY_TABLE],
        all_of=[
            JsonSchema(if_=_ANY_TABLE, then=has_name),
            *(JsonSchema(if_=_table_with(name), then=table) for name, table in tables.items()),
        ],
    )


def _table_with(name: str) -> JsonSchema:
    return JsonSchema(type="object", properties={"name": JsonSchema(const=name)}, required=["name"])


def _task(cls: type[TaskEntry]) -> JsonSchema:
    """Return the schema of a task. Parameters of a split without a name are those of the task's default split."""
    if not issubclass(cls, Recipe):
        return table_schema(cls)
    default, _ = name_and_parameters(parameter_of(cls, "split").default)
    without_name = JsonSchema(type="object", not_=JsonSchema(required=["name"]))
    of_default = JsonSchema(if_=without_name, then=reference(f"split.{default}"))
    return table_schema(cls, {"split": JsonSchema(all_of=[reference("split"), of_default])})


def _parameters(name: str, cls: type[Any], table: JsonSchema) -> JsonSchema:
    """Return the schema of a shipped class: its name and its parameters."""
    named = {"name": JsonSchema(const=name, description=_title(cls))}
    return msgspec.structs.replace(table, properties=named | dict(table.properties))


def _title(cls: type[Any]) -> str:
    return (cls.__doc__ or "").strip().partition("\n")[0]


def _with_old_keys(whole: JsonSchema) -> dict[str, JsonSchema]:
    """Return the properties of an experiment with its renamed keys, which the loader still reads."""
    properties = dict(whole.properties)
    for old, new in RENAMED_KEYS.items():
        section, _, name = old.partition(".")
        table = properties[section]
        renamed = msgspec.structs.replace(
            table.properties[new.partition(".")[2]],
            description=f"old name of {new}",
            deprecated=True,
            hints=EditorHints(hidden=True),
            default=None,
        )
        properties[section] = msgspec.structs.replace(table, properties={**table.properties, name: renamed})
    return properties
