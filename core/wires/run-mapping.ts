import type { Json } from '#core/base/json.ts';
import { hasEnded } from '#core/base/run-kinds.ts';
import type { CallAnswer } from '#core/execution/calls/finish.ts';
import type { ProgressEvent } from '#core/execution/engines/progress.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Approval } from '#core/runs/approvals/approval.ts';
import { type Run, usageOf } from '#core/runs/run.ts';
import type { RunStore } from '#core/runs/store.ts';

/** Tokens of a run. */
export interface Usage {
  /** All tokens of the input, those of a cache included. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cachedInputTokens?: number;
  readonly cacheWriteInputTokens?: number;
}

/** How a run ended. */
export type End =
  | { readonly output: Json; readonly usage?: Usage | undefined }
  | { readonly error: { readonly code: string; readonly message: string } };

/**
 * What a model's text is: `hidden` the JSON of a prompt with a schema, `answer` all that another prompt says, `words` of a
 * loop on its way to an answer.
 */
export type TextKind = 'hidden' | 'answer' | 'words';

/** Translates the progress of a run to the events of a protocol. The same progress gives the same events. */
export interface RunMapping<Event> {
  start(): readonly Event[];
  progress(event: ProgressEvent): readonly Event[];
  /** Whether what a run waits for ends the stream: a person is asked who was not asked before. */
  isInterrupt(event: Extract<ProgressEvent, { type: 'waiting' }>): boolean;
  interrupt(waiting: readonly Approval[]): readonly Event[];
  end(end: End): readonly Event[];
}

export function textKindOf(agent: AgentVersion): TextKind {
  const { asksModels, hasLoop } = engineTraits(agent);
  if (!asksModels || hasLoop) return 'words';
  return agent.definition.output_schema == null ? 'answer' : 'hidden';
}

/** Returns how a run ended, as it is stored; `undefined` stands for a run that was deleted. */
export async function storedEnd(runs: Pick<RunStore, 'body'>, run: Run | undefined): Promise<End | undefined> {
  if (run === undefined) return { error: { code: 'NOT_FOUND', message: 'The run was deleted.' } };
  if (!hasEnded(run.status)) return undefined;
  const { errorCode, errorMessage } = run;
  if (errorCode !== null) return { error: { code: errorCode, message: errorMessage ?? errorCode } };
  const answer = usageOf(run);
  return { output: (await runs.body(run.id))?.output ?? null, usage: answer && tokensOf(answer.usage) };
}

export const tokensOf = (usage: NonNullable<CallAnswer['usage']>): Usage => ({
  inputTokens: usage.input_tokens,
  outputTokens: usage.output_tokens,
  ...(usage.cache_read_tokens !== undefined && { cachedInputTokens: usage.cache_read_tokens }),
  ...(usage.cache_write_tokens !== undefined && { cacheWriteInputTokens: usage.cache_write_tokens }),
});
