import { createHash } from 'node:crypto';
import type { Clock } from '#core/ports/clock.ts';
import type { LlmCache } from '#core/ports/llm.ts';
import type { EngineRun } from './engine.ts';
import type { PromptMessage } from './prompt.ts';

/** A shared part shorter than this, in tokens, is not worth its place in a cache (`docs/models.md#caching`). */
const FROM_TOKENS = 4096;
/** Rough size of a token. */
const TOKEN_CHARACTERS = 3.5;
/** How long providers keep what was read. */
const KEPT_MS = 5 * 60_000;
/** Callers choose skills: what is remembered of them is bounded. */
const MAX_REMEMBERED = 1000;

/** Hash of a shared part, with who asked it -> when it was asked last, in epoch milliseconds; those asked last stand last. */
const asked = new WeakMap<Clock, Map<string, number>>();

/**
 * What a provider is told about a prompt: its shared part comes again if this process asked the same within the last
 * minutes. The first call writes nothing to the cache, which has a price, as long as no second one follows.
 */
export function promptCacheOf(clock: Clock, run: EngineRun, { shared = '' }: PromptMessage): LlmCache {
  const key = run.agent.id;
  if (shared.length < FROM_TOKENS * TOKEN_CHARACTERS) return { key };
  const known = asked.get(clock) ?? new Map<string, number>();
  asked.set(clock, known);
  const now = clock.now();
  const hash = createHash('sha256')
    .update(JSON.stringify([run.workspaceId, key, shared]))
    .digest('base64');
  const last = known.get(hash);
  known.delete(hash);
  if (known.size >= MAX_REMEMBERED) known.delete(known.keys().next().value!);
  known.set(hash, now);
  return last !== undefined && now - last < KEPT_MS ? { key, again: 'shared' } : { key };
}
