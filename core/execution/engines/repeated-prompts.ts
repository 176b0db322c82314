import { createHash } from 'node:crypto';
import type { Clock } from '#core/ports/clock.ts';
import type { LlmCache } from '#core/ports/llm.ts';
import type { EngineRun } from './engine.ts';
import type { PromptMessage } from './prompt.ts';

/** A shared part with fewer tokens is not worth caching (`docs/models.md#caching`). */
const FROM_TOKENS = 4096;
/** Approximate characters of a token. */
const TOKEN_CHARACTERS = 3.5;
/** Lifetime of providers' cache entries. */
const KEPT_MS = 5 * 60_000;
/** Maximum number of remembered parts: callers choose skills, so the number is otherwise unbounded. */
const MAX_REMEMBERED = 1000;

/**
 * Hash of a shared part and its caller -> time of the last request, in epoch milliseconds; the most recent entries are
 * last.
 */
const asked = new WeakMap<Clock, Map<string, number>>();

/**
 * Returns the cache hint for a prompt: its shared part is cacheable if this process sent the same one within the last
 * minutes. Cache writes cost money, so the first call writes nothing in case no second one follows.
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
