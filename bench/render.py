from pathlib import Path
def render(out: Path) -> list[str]:
    return []
