"""The JSON that commands print and heaptop writes for others: the keys of each document, and what each means.

This is a promise (``docs/json.md``): within a version of a document keys never vanish and never change their type; new
ones may come. A change that breaks this raises the document's ``version``. ``make schemas`` writes ``docs/schema`` from
here: each class with a ``schema`` is a document. Sizes are bytes unless a key's name has a unit; null is *not known* or
*not asked for*.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from typing_extensions import NotRequired  # textual brings it

# -- parts of several documents -------------------------------------------------------------------------------


class OfProcessJson(TypedDict):
    """Whose it is."""

    pid: int
    python: str
    """Version of Python: `3.12.1`."""


class AmountJson(TypedDict):
    """Objects, or blocks of memory."""

    count: int
    bytes: int


class SnapshotSizeJson(TypedDict):
    """How large a snapshot is."""

    objects: int
    references: int
    bytes: int
    """Of all objects."""
    memory: int
    """Of the tables that answer queries."""


class GarbageJson(AmountJson):
    """Objects that nothing reaches."""

    cycles: int
    """Reference cycles among them."""
    gc_enabled: bool


class SnapshotJson(TypedDict):
    """The snapshot that answered."""

    pause_ms: float
    """For which the process was stopped."""
    build_ms: float
    """That it took, while the process ran."""
    snapshot: SnapshotSizeJson
    garbage: GarbageJson
    gaps: list[str]
    """What it does not know."""


# -- heaptop ps, heaptop doctor -------------------------------------------------------------------------------


class ListedProcessJson(TypedDict):
    """A Python process."""

    pid: int
    user: str
    python: str
    """Version, as far as it is known without an attach."""
    rss: int
    command: str
    attachable: bool
    why: str
    """Why it cannot be attached to; else empty."""
    error: str | None
    """Class of the error that an attach would end with."""


class PsJson(TypedDict):
    """`heaptop ps`: the Python processes here, the largest first."""

    schema: Literal["heaptop.ps"]
    version: Literal[1]
    processes: list[ListedProcessJson]


class CheckJson(TypedDict):
    """One check."""

    name: str
    ok: bool | None
    """Null where it is neither good nor bad."""
    detail: str
    fix: str
    """The command that fixes it; else empty."""


ErrorJson = TypedDict(
    "ErrorJson", {"class": str, "message": str, "why": str, "fix": str, "exit_code": int}
)  # class is a keyword


class DoctorJson(TypedDict):
    """`heaptop doctor`: whether an attach would work."""

    schema: Literal["heaptop.doctor"]
    version: Literal[1]
    pid: int | None
    """Null where no process was named."""
    attachable: bool
    checks: list[CheckJson]
    error: ErrorJson | None
    """That an attach would end with."""


# -- heaptop census -------------------------------------------------------------------------------------------


class CensusHeadJson(OfProcessJson):
    """How a census was taken."""

    mode: str
    """`clone`, `stop` or `python`; the last is an estimate, because the heap changes meanwhile."""
    mode_reason: str
    """Why it was no better one; else empty."""
    complete: bool
    cut: str
    """What is missing; else empty."""
    sizeof_guessed: int
    """Objects counted with their basic size, because their type has a `__sizeof__` written in Python."""


class PauseCausesJson(TypedDict):
    """The longest pauses by cause, in nanoseconds."""

    attach_stop_ns: int
    start_ns: int | None
    compile_ns: int | None
    core_ns: int | None
    gil_ns: int | None
    clone_ns: int | None
    count_ns: int | None


class CensusTotalJson(AmountJson):
    """All that passes the filter, shown or not."""

    hidden_bytes: int | None
    """That `sys.getsizeof` leaves out; null in mode `python`, which cannot see them."""


class CountedCensusJson(CensusHeadJson):
    """A census with what it cost."""

    pause_ms: float
    """The longest time for which Python code of the process waited, the attach included."""
    pause_by_cause: PauseCausesJson
    duration_ms: float
    cpu_ms: float
    agent_bytes: int
    owned_bytes: int | None
    """In the rows beyond `sys.getsizeof`: what objects own natively. Null in mode `python`, as are the next two."""
    mapped_bytes: int | None
    """The part of it that is mappings."""
    at_least: int | None
    """Objects that own memory of a C library of unknown size."""
    total: CensusTotalJson
    by: str
    where: str
    """The filter; empty for none."""
    shown: int
    """Rows here."""
    of: int
    """Rows there are."""


class CensusRowJson(CensusTotalJson):
    """A type, a module, a generation or an interpreter."""

    name: str
    sizeof_guessed: int
    """Objects whose size is their basic one, or a lower bound."""


class FilteredJson(TypedDict):
    """What the filter leaves out."""

    rows: int
    bytes: int


class FilteredCountJson(FilteredJson):
    """What the filter leaves out."""

    count: int


class CensusJson(CountedCensusJson):
    """`heaptop census` by type, module, generation or interpreter: live objects, the largest rows first."""

    schema: Literal["heaptop.census"]
    version: Literal[1]
    filtered: FilteredCountJson
    rows: list[CensusRowJson]


class SampledRowJson(TypedDict):
    """Blocks that were sampled: estimates."""

    name: str
    count: int | None
    """Blocks, of which an object may have several; null without samples."""
    bytes: int
    low: int
    """`bytes` is between `low` and `high` in 95 of 100 cases; so are `allocated_bytes` and `freed_bytes`."""
    high: int
    samples: int
    allocated_bytes: NotRequired[int | None]
    """While allocations were sampled; null where that is not known. By producer, producer-module and size."""
    allocated_low: NotRequired[int | None]
    allocated_high: NotRequired[int | None]
    allocated_count: NotRequired[int | None]
    freed_bytes: NotRequired[int | None]
    freed_low: NotRequired[int | None]
    freed_high: NotRequired[int | None]
    freed_count: NotRequired[int | None]
    share: NotRequired[float]
    """Of all live bytes, 0 to 1. By producer and producer-module."""
    types: NotRequired[list[str]]
    """The largest. By size."""
    from_bytes: NotRequired[int]
    """A lifetime of so many bytes allocated at least. By lifetime."""
    survival: NotRequired[float]
    """Of 1, how many objects get that old. By lifetime."""
    survival_low: NotRequired[float]
    survival_high: NotRequired[float]


class SamplingJson(TypedDict):
    """What the rows are worth."""

    seconds: float
    means: str
    """`native`, or `tracemalloc`."""
    not_sampled: str
    """Memory that no sample sees."""
    interval: int
    """Mean bytes between two samples."""
    allocated_bytes: int
    live_bytes: int
    dropped: int
    """Samples that were lost."""
    approximate: list[str]
    """Types whose sites are estimates, because free lists reuse their objects."""
    arrays: bool


class SampledJson(CountedCensusJson):
    """`heaptop census` by producer, producer-module, size or lifetime: sampled blocks."""

    schema: Literal["heaptop.sampled"]
    version: Literal[1]
    filtered: FilteredJson
    sampled: SamplingJson
    rows: list[SampledRowJson]


class RetainedRowJson(AmountJson):
    """Objects that are kept in the same way."""

    name: str
    retainers: NotRequired[list[str] | None]
    """The set; null for objects of several sets. By retainer."""


class RetainedJson(OfProcessJson, SnapshotJson):
    """`heaptop census` by retainer or kind: what sets of retainers, or kinds of GC roots, keep alive."""

    schema: Literal["heaptop.retained"]
    version: Literal[1]
    mode: str
    complete: bool
    duration_ms: float
    total: AmountJson
    other: AmountJson
    """Part of the total that is in no row: sets too small."""
    by: str
    where: str
    filtered: AmountJson
    shown: int
    of: int
    rows: list[RetainedRowJson]
    retainers: int | None
    """The largest retainer set that is a row of its own; null by kind."""


class MemoryRowJson(TypedDict):
    """One use of resident memory."""

    key: str
    name: str
    bytes: int
    share: float
    """Of `rss`, 0 to 1."""
    approximate: bool
    """From figures of different moments."""
    meaning: str


class MappingJson(TypedDict):
    """A mapping."""

    name: str
    bytes: int
    """Resident."""
    size: int
    """Of address space."""


class ArenasJson(TypedDict):
    """Resident bytes of the arenas of Python's allocator of small objects."""

    arenas: int
    """All: the sum of the others."""
    in_use: int
    free_blocks: int
    free_pools: int
    overhead: int


class MallocJson(TypedDict):
    """glibc's own figures; null where they have lost their upper part (32 bits, before glibc 2.33)."""

    heaps: int | None
    in_use: int | None
    free: int | None
    mapped: int | None
    mapped_chunks: int
    wraps: bool
    """They are of 32 bits."""
    free_chunks: int
    """How many pieces `free` is in; 0 where that is not known."""


class OtherMallocJson(TypedDict):
    """Figures of an allocator in malloc's place, by its own functions; null where it has none that are safe to call."""

    name: str
    """`jemalloc`, `tcmalloc` or `mimalloc`."""
    library: str
    in_use: int | None
    """Given out; of jemalloc with what threads keep in their caches."""
    free_blocks: int | None
    """In partly used pages; of tcmalloc all that its caches keep."""
    free_pages: int | None
    """Unused pages that were not returned to the kernel."""
    metadata: int | None
    """Its own tables; 0 where it does not report them."""


class NativeEstimateJson(TypedDict):
    """Live native memory, estimated."""

    bytes: int
    low: int
    """`bytes` is between `low` and `high` in 95 of 100 cases."""
    high: int
    samples: int


class NativeLibraryJson(NativeEstimateJson):
    """What the calls of one library hold."""

    library: str
    """Its path; `?` where it is not known."""


class NativeFrameJson(TypedDict):
    """A Python frame."""

    file: str
    function: str
    line: int


class NativeLineJson(NativeEstimateJson):
    """What calls below one Python line hold."""

    file: str
    """Empty where there is no stack: `no_stack` has the reason."""
    line: int
    no_stack: str


class NativeSiteJson(NativeLibraryJson):
    """An allocation site: a function of a library, and the Python stack above it."""

    function: str
    """Of the library; empty where its symbols do not tell."""
    stack: list[NativeFrameJson]
    """The innermost first; of sites that differ only further out, that of the largest."""
    no_stack: str
    """Why there is none; else empty."""


class MemoryJson(CensusHeadJson):
    """`heaptop census --memory`: what resident memory is used for."""

    schema: Literal["heaptop.memory"]
    version: Literal[1]
    rss: int | None
    """The sum of `rows`."""
    huge_pages: int | None
    hugetlb: int | None
    swap: int | None
    live: int
    """Of all live objects."""
    hidden_bytes: int | None
    """The part of it that `sys.getsizeof` leaves out."""
    allocator: str | None
    took_ms: float
    rows: list[MemoryRowJson]
    files: list[MappingJson]
    stacks: list[MappingJson]
    own: list[MappingJson]
    """heaptop's overhead."""
    own_objects: int
    own_at_least: bool
    own_left_out: str
    rss_before_attach: int | None
    shared: list[MappingJson]
    anonymous: list[MappingJson]
    arenas: ArenasJson | None
    malloc: MallocJson | None
    other_malloc: OtherMallocJson | None
    """Of a program whose malloc is jemalloc's, tcmalloc's or mimalloc's."""
    advice: list[str]
    """What makes malloc keep less free memory, where its figures show that it helps."""
    native: list[NativeSiteJson] | None
    """Where native memory was allocated, the largest sites, of a program that `heaptop run --native` started."""
    notes: list[str]
    """What is not known, or does not fit."""


# -- heaptop run --native -------------------------------------------------------------------------------------


class NativeJson(OfProcessJson):
    """`heaptop run --native`: live native memory of a program that heaptop started, by allocation site."""

    schema: Literal["heaptop.native"]
    version: Literal[1]
    exited: bool
    """Whether the program has ended: then it is what it never freed."""
    status: int | None
    """Its exit code, or a signal's number below 0."""
    interval: int
    """Mean bytes between samples, as asked for."""
    coarsest: int
    """The largest that was in force."""
    sampled: int
    """Blocks, live or freed."""
    dropped: int
    """Samples that are in no figure."""
    missed: int
    """Frees that were not seen."""
    total: NativeEstimateJson
    sites: list[NativeSiteJson]
    libraries: list[NativeLibraryJson]
    lines: list[NativeLineJson]
    notes: list[str]
    """What is not known."""


# -- heaptop why ----------------------------------------------------------------------------------------------


class PathJson(AmountJson):
    """Objects that one path keeps alive."""

    retained: int
    """Retained size."""
    kind: str
    """Of the GC root: `module`, `frame` …; `none` is garbage."""
    path: list[str]
    """From the root: `module app.cache`, `._sessions`, `dict[*]`, `app.Session`."""
    example: str
    """Address of one of them, for `heaptop why PID ADDRESS`."""


class KeptJson(OfProcessJson, SnapshotJson):
    """What keeps objects alive."""

    type: str
    count: int
    bytes: int
    retained: int
    """Bytes that would be freed if they went."""
    complete: bool
    """Whether all paths are known."""
    paths: list[PathJson]


class OtherPathsJson(AmountJson):
    """What is beyond the paths that are listed."""

    groups: int


class WhyJson(KeptJson):
    """`heaptop why PID TYPE`: the paths that keep the objects of a type alive, the largest first."""

    schema: Literal["heaptop.why"]
    version: Literal[1]
    other: OtherPathsJson
    retainers: list[RetainedRowJson] | None
    """Null without `--retainers`."""


class ObjectRowJson(TypedDict):
    """One object."""

    address: str
    type: str
    bytes: int
    retained: int
    generation: int
    kind: str
    length: int | None
    """Of a container or string."""


class DominatorJson(ObjectRowJson):
    """The object without which it would be freed."""

    path: list[str]


class ReferenceJson(TypedDict):
    """One reference."""

    label: str
    """`.name`, `[*]` …"""
    address: str | None
    type: str
    bytes: int
    retained: int


class ObjectJson(KeptJson):
    """`heaptop why PID ADDRESS`: one object, its path, its referrers and referents."""

    schema: Literal["heaptop.object"]
    version: Literal[1]
    address: str
    generation: int
    kind: str
    length: int | None
    preview: str
    """Its value, with `--values`; else empty."""
    dominator: DominatorJson | None
    held_by_c: int
    """References that no object has: C code holds them."""
    referrers: list[ReferenceJson]
    referrer_count: int
    referents: list[ReferenceJson]
    referent_count: int


# -- heaptop waste --------------------------------------------------------------------------------------------


class WasteSortJson(TypedDict):
    """All waste of one sort."""

    sort: str
    count: int
    bytes: int
    own: int
    """The part that is in no other sort's `own`: the sum over all sorts has each byte once."""
    contents: int | None
    """Distinct values, of duplicates and equal numbers."""
    estimated: bool


class WasteRowJson(TypedDict):
    """Objects with which the same is wrong."""

    sort: str
    bytes: int
    """That could be saved."""
    own: int
    estimated: bool
    count: int
    type: str | None
    holder: str | None
    detail: int
    advice: str
    path: list[str]
    """To one of them."""
    example: str | None
    """Its address."""


class WasteJson(OfProcessJson, SnapshotJson):
    """`heaptop waste`: what memory could be saved."""

    schema: Literal["heaptop.waste"]
    version: Literal[1]
    complete: bool
    where: str
    total: int
    """Each byte once."""
    sum: int
    """Over all rows."""
    estimated: bool
    sorts: list[WasteSortJson]
    shown: int
    of: int
    other_rows: int
    """That the snapshot did not send."""
    rows: list[WasteRowJson]
    notes: list[str]


# -- heaptop leaks --------------------------------------------------------------------------------------------


class HandlerJson(TypedDict):
    """How much of a suspect one request, task or thread allocated."""

    name: str
    """`request create_session (shop/views.py)`; in parentheses what is no handler."""
    share: float
    """Of its sampled bytes: 0 to 1."""


class SuspectJson(TypedDict):
    """One explained growth."""

    rank: int
    verdict: str
    """`leak`, `backlog`, `unclear` or `no leak`."""
    type: str
    count: int
    """New objects of the type, at least."""
    bytes: int
    """Of all that is new and held there."""
    rate: float
    """Objects a second, in the last interval; or of what else is `counted`."""
    site: str
    """Where they were allocated: `path/views.py:88 create_session`; empty without samples."""
    stack: list[str]
    """The innermost frame first."""
    site_share: float
    """Of the sampled bytes, how much this site allocated: 0 to 1."""
    samples: int
    retainer: str
    holder: str
    """Type of the object where they collect; empty where that is several objects."""
    path: list[str]
    kind: str
    held: int
    """Of `count`, how many are held there."""
    point: str | None
    """Address of the holder."""
    example: str | None
    """Address of one of the objects."""
    generations: list[int]
    """Survivors per interval, the oldest first."""
    series: list[int | None]
    """Objects, or what else is `counted`, at each mark and at last."""
    evidence: list[str]
    """Why the verdict is so, the weightiest first."""
    sentence: str
    site_is_own: bool
    """Else the site is that of what is new with them."""
    proven_check: int
    """The first check that called it a leak; 0 for none."""
    proven_seconds: float
    confirmed_check: int
    """The last one."""
    confirmed_seconds: float
    holding: str
    handlers: list[HandlerJson]
    """The largest first; empty where no handler is known."""
    counted: str
    """What `rate`, `generations` and `series` count: `objects`; `items` of one container that grew, or `bytes` of as
    many objects as before."""


class LintJson(TypedDict):
    """A known defect."""

    name: str
    sentence: str
    before: int
    now: int
    threshold: int


class MarkJson(TypedDict):
    """A moment at which the heap was examined."""

    name: str
    time_ns: int
    """On the process's monotonic clock."""
    objects: int
    bytes: int
    rss: int | None
    collections: int | None
    """Full garbage collections since the attach."""
    collected: bool
    """Garbage was collected right before."""
    seconds: float
    """Since the first mark."""


class GrownRowJson(TypedDict):
    """What grew between the first mark and the last moment. By site all figures are estimates, and of blocks."""

    name: str
    count: int
    """Below 0: fewer."""
    bytes: int
    now: int
    now_bytes: int
    born: int | None
    """At least."""
    died: int | None
    """At least."""
    generations: list[int]
    """Survivors per interval."""
    error: int
    """By site: of `bytes`, the larger side of its interval."""


class GrowthJson(TypedDict):
    """Growth by one attribute."""

    complete: bool
    of: int
    rows: list[GrownRowJson]


class GateJson(TypedDict):
    """What `--fail-on-leak` decided."""

    min_growth: int
    min_rate: int
    ignored: list[str]
    decided: bool
    """There were enough checks."""
    failing: list[int]
    """Ranks of suspects that fail."""


class LeaksJson(OfProcessJson):
    """`heaptop leaks`: suspects, and what grew. Other documents have it as a part."""

    schema: Literal["heaptop.leaks"]
    version: Literal[1]
    seconds: float
    verdict: str
    """The most severe of its suspects."""
    grown: AmountJson
    suspects: list[SuspectJson]
    lints: list[LintJson]
    marks: list[MarkJson]
    growths: dict[str, GrowthJson]
    """By `type`, `module`, `site` and `retainer`."""
    notes: list[str]
    """What is partial or not known."""
    gate: NotRequired[GateJson]
    """With `--fail-on-leak`."""
    pause_ms: NotRequired[float]
    """The longest time for which the process was stopped. Of the command only."""


# -- recordings -----------------------------------------------------------------------------------------------


class RecordJson(TypedDict):
    """`heaptop record`: the recording that was made."""

    schema: Literal["heaptop.record"]
    version: Literal[1]
    file: str
    pid: int
    seconds: float
    bytes: int
    thinned: bool
    """Older ticks were dropped, to keep `--max-size`."""
    ended: str
    """Why."""
    no_looks: str
    """Why there was no leak hunt; else empty."""
    leaks: LeaksJson | None


class ChangedJson(AmountJson):
    """One row at two moments; `count` and `bytes` are the change."""

    name: str
    error_bytes: int
    """Of `bytes`, by which an estimate may be wrong; 0 of what was counted."""
    before: AmountJson
    after: AmountJson
    new: NotRequired[AmountJson]
    """Of two snapshots of one process: objects that only the second one has, at least."""
    gone: NotRequired[AmountJson]
    """That only the first one has, at least."""


class CourseJson(AmountJson):
    """All live objects at one census."""

    seconds: float
    rss: int | None


class JumpJson(TypedDict):
    """A moment at which much was allocated."""

    from_seconds: float
    """The census before it."""
    seconds: float
    """The census after it."""
    at_seconds: float
    """When it was, as closely as is known."""
    bytes: int
    """More live objects."""
    rss: int | None
    types: list[ChangedJson]
    producers: list[ChangedJson]


class RecordedJson(OfProcessJson):
    """What happened in a recording."""

    file: str
    command: str
    user: str
    types: list[ChangedJson]
    producers: list[ChangedJson]
    findings: list[LeaksJson]
    remarks: list[str]
    """What is damaged, or was left out."""
    begin: NotRequired[str]
    """UTC. This and what follows is there if the recording has a moment; seconds are since the begin."""
    end: NotRequired[str]
    seconds: NotRequired[float]
    at: NotRequired[float]
    """The moment it was read to."""
    course: NotRequired[list[CourseJson]]
    jumps: NotRequired[list[JumpJson]]
    """The largest. Of `heaptop report` only."""


class ReportJson(RecordedJson):
    """`heaptop report`: how memory grew in a recording, and what leak hunts found."""

    schema: Literal["heaptop.report"]
    version: Literal[1]


class OverTimeRowJson(TypedDict):
    """One band: as many figures as there are `seconds`."""

    name: str
    bytes: list[int]
    count: list[int]


class OverTimeColumnsJson(TypedDict):
    """Bands, the largest over time first."""

    seconds: list[float]
    rows: list[OverTimeRowJson]


class OverTimeJson(TypedDict):
    """Bands by type, and by allocation site (in blocks)."""

    types: OverTimeColumnsJson
    producers: OverTimeColumnsJson


class StackJson(TypedDict):
    """Blocks of one type that one stack allocated: estimates."""

    frames: list[str]
    """The innermost first."""
    type: str | None
    live_bytes: int
    live_count: int
    allocated_bytes: int | None


class ExportJson(RecordedJson):
    """`heaptop export --to json`: a report with all rows, the censuses over time, and stacks."""

    schema: Literal["heaptop.export"]
    version: Literal[1]
    heaptop: str
    """Its version."""
    stacks: list[StackJson]
    over_time: OverTimeJson | None


class MomentJson(TypedDict):
    """A moment of a recording."""

    file: str
    pid: int | None
    rss: int | None
    total: AmountJson | None
    """Of the last census by then."""
    complete: bool | None
    time: NotRequired[str]
    """UTC."""
    seconds: NotRequired[float]
    """Since the begin."""


class DiffJson(TypedDict):
    """`heaptop diff`: what changed between two moments; what grew most comes first."""

    schema: Literal["heaptop.diff"]
    version: Literal[1]
    before: MomentJson
    after: MomentJson
    by: str
    grown: AmountJson
    shown: int
    of: int
    rows: list[ChangedJson]


# -- heaptop guard --------------------------------------------------------------------------------------------


class ReadingsJson(TypedDict):
    """The process's memory when the trigger fired."""

    rss: int | None
    limit: int | None
    limit_of: str
    left: int | None
    growth: float | None
    """Of RSS, in bytes a second."""
    garbage: int | None
    """Objects in `gc.garbage`."""
    pressure: float | None
    """Per cent."""
    verdict_is_leak: bool
    seconds_left: float | None
    """Until the limit, at that growth."""


class GuardRowJson(AmountJson):
    """What grew from the first census to the last."""

    name: str


class GuardSiteJson(TypedDict):
    """Live bytes that one site allocated since the attach: an estimate with its 95 % interval."""

    name: str
    bytes: int
    low: int
    high: int


class GuardJson(OfProcessJson):
    """A report of a guard, of `heaptop guard` or `heaptop serve`: a file, a webhook's body, a command's stdin."""

    schema: Literal["heaptop.guard"]
    version: Literal[1]
    heaptop: str
    """Its version."""
    time: str
    """UTC."""
    host: str
    service: str | None
    trigger: str
    readings: ReadingsJson
    notes: list[str]
    census_age_seconds: float | None
    """From the census to the trigger; below 0: it came after it."""
    census: CensusJson | None
    grown: list[GuardRowJson]
    grown_seconds: float
    allocated_at: list[GuardSiteJson]
    leaks: LeaksJson | None
    recording: str | None
    """Its file's name."""
    dump: str | None
    """The name of the heap dump's file."""


class FleetProcessJson(TypedDict):
    """A process that the rules of `heaptop serve` chose."""

    pid: int
    service: str
    user: str
    unit: str
    """Of systemd; else empty."""


class FleetHuntJson(TypedDict):
    """The last leak hunt in it."""

    verdict: str
    age_seconds: float
    suspects: list[str]
    """Sentences."""


class AttachedProcessJson(FleetProcessJson):
    """One that it is attached to."""

    python: str
    way: str
    """The backend: `ptrace`, `pep768`."""
    rss: int
    census_age_seconds: float | None
    mode: str
    exact: bool | None
    """Whether its last census is; null without one."""
    hunt: FleetHuntJson | None


_RefusalJson = TypedDict("_RefusalJson", {"class": str})  # class is a keyword


class RefusedProcessJson(FleetProcessJson, _RefusalJson):
    """One that it could not attach to, and will try again."""

    message: str
    times: int
    again_in_seconds: float


class FleetJson(TypedDict):
    """`/processes` of `heaptop serve`: which processes it is attached to, and which it could not attach to."""

    schema: Literal["heaptop.processes"]
    version: Literal[1]
    attached: list[AttachedProcessJson]
    refused: list[RefusedProcessJson]
