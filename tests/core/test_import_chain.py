"""Who may import whom: one chain of subpackages, and simulators stay in theirs."""

import ast
from pathlib import Path

import pytest

import scots

ROOT = Path(scots.__file__).parent

CHAIN = [
    {"core"},
    {"data"},
    {"envs", "models"},
    {"datasets"},
    {"augmenters", "planners", "agents"},
    {"evaluation"},
    {"experiments"},
    {"reporting"},
    {"app"},
    {"arguments"},
    {"doctor", "demo", "data_commands", "plan_command", "app_command"},
    {"cli", "figures"},
    {"__main__"},
]
SIMULATORS = {"mujoco", "ogbench", "irsim", "stable_baselines3"}
SIMULATOR_PACKAGES = {"envs": SIMULATORS, "datasets": {"stable_baselines3", "ogbench"}}  # experts are trained there


def level(package: str) -> int:
    return next(n for n, packages in enumerate(CHAIN) if package in packages)


def imports_of(path: Path) -> set[str]:
    """Dotted names imported anywhere in a file, also inside functions and by `require`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name != "scots"}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= (
                {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "scots" else {node.module}
            )
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require":
            found.add(ast.literal_eval(node.args[0]))
    return found


def package_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


MODULES = [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


def test_every_module_has_its_package():
    assert {package_of(path) for path in MODULES} <= set().union(*CHAIN)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down_the_chain(path: Path):
    package = package_of(path)
    for name in imports_of(path):
        if name.startswith("scots.") and name != "scots.__version__":
            target = name.split(".")[1]
            assert target == package or level(target) < level(package), name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_simulators_stay_in_their_packages(path: Path):
    used = {name.split(".")[0] for name in imports_of(path)} & SIMULATORS
    assert used <= SIMULATOR_PACKAGES.get(package_of(path), set())


def test_no_module_is_long():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: length for name, length in lengths.items() if length > 500} == {}
