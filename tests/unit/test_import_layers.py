"""Who may import whom: a module imports only from its own layer's below, and simulators stay in sources."""

import ast
from pathlib import Path

import scots

ROOT = Path(scots.__file__).parent

LAYERS = [
    {"errors"},
    {"config", "files", "console", "rendering"},
    {"trajectories", "page"},
    {"npz"},
    {"formats"},
    {"shards", "nets", "diffusion", "retrieval", "support"},
    {"training", "stitching"},
    {"embedding", "refinement", "planners", "agents"},
    {"artifacts"},
    {"augmentation", "control"},
    {"sources", "recipes"},
    {"analysis", "geodesic", "worlds"},
    {"evaluation"},
    {"experiments"},
    {"tables"},
    {"reporting", "doctor", "measures", "results"},
    {"quality", "rollouts"},
    {"figures", "quality_page"},
    {"cli"},
    {"demo"},
]
UPWARDS = {("trajectories", "formats")}  # Trajectories.save, imported when called
SIMULATORS = {"mujoco", "ogbench", "stable_baselines3"}
SIMULATOR_MODULES = {"sources"}


def layer_of(module: str) -> int:
    return next(n for n, names in enumerate(LAYERS) if module in names)


def imports_of(path: Path) -> set[str]:
    """Dotted names imported anywhere in a file, also inside functions and by `require`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= (
                {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "scots" else {node.module}
            )
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require":
            found.add(ast.literal_eval(node.args[0]))
    return found


def modules() -> dict[Path, str]:
    paths = [path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py"]
    return {path: path.relative_to(ROOT).with_suffix("").parts[0] for path in paths}


def test_every_module_has_a_layer():
    assert set(modules().values()) == set().union(*LAYERS)


def test_imports_point_downwards():
    known = set().union(*LAYERS)
    for path, module in modules().items():
        targets = {name.split(".")[1] for name in imports_of(path) if name.startswith("scots.")}
        for target in targets & known - {module}:
            assert layer_of(target) < layer_of(module) or (module, target) in UPWARDS, f"{path.name} imports {target}"


def test_simulators_are_imported_in_sources_only():
    for path, module in modules().items():
        if module not in SIMULATOR_MODULES:
            assert not {name.split(".")[0] for name in imports_of(path)} & SIMULATORS, path.name


def test_no_module_is_long():
    assert {path.name: n for path in modules() if (n := len(path.read_text().splitlines())) > 500} == {}
