"""A fake server, and a model that asks it."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import certifi
import pytest
from fake_api import FakeApi, serving
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from provider_bench import KEY, KEYS, Ask

from fml_hydra.llm import calling
from fml_hydra.llm.provider import ProviderLLM
from fml_hydra.overrides import compose_config


@pytest.fixture(scope="session")
def one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Google's client reads all authorities of the world twice for each attempt: 0.13 s of CPU."""
    end = "-----END CERTIFICATE-----\n"
    path = tmp_path_factory.mktemp("certificates") / "one.pem"
    path.write_text(Path(certifi.where()).read_text().partition(end)[0] + end)
    return path


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch, one_certificate: Path) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("SSL_CERT_FILE", str(one_certificate))
    monkeypatch.setattr(calling, "FIRST_WAIT", 0.01)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with serving() as fake:
        yield fake


@cache
def composed(name: str) -> DictConfig:
    """The option as it stands in conf/llm."""
    others = ["llm.model=m"] if name == "openai_compatible" else []
    found: DictConfig = compose_config([f"llm={name}", "llm.base_url=http://h", *others]).llm
    return found


@pytest.fixture
def llm(api: FakeApi, keys: None) -> Ask:
    """One of conf/llm, asking the fake server; a port of its own keeps what is learned apart."""

    def build(name: str = "gpt-5", *overrides: str, url: str = "") -> ProviderLLM:
        path = "/v1" if "gpt" in name or "compatible" in name else ""
        given = [f"base_url={url or api.url + path}", *(o.removeprefix("llm.") for o in overrides)]
        cfg = OmegaConf.merge(composed(name), OmegaConf.from_dotlist(given))
        if "model" in OmegaConf.from_dotlist(given):
            cfg.name = cfg.model
        found = instantiate(cfg, _convert_="all")
        assert isinstance(found, ProviderLLM)
        return found

    return build
