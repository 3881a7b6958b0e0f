"""The worlds that an agent acts in: maps of emoji, and the environments of MiniGrid and BabyAI."""

from __future__ import annotations

from howsure.studies.trust.world.search import Best
from howsure.studies.trust.world.words import ParsedAction, parse_action
from howsure.studies.trust.world.worlds import SHIPPED_MAPS, Effect, State, World, open_world

__all__ = ["SHIPPED_MAPS", "Best", "Effect", "ParsedAction", "State", "World", "open_world", "parse_action"]
