import { describe, expect, test } from 'vitest';
import { PlatformError } from '#core/base/errors.ts';
import type { CallAnswer } from '#core/execution/calls/finish.ts';
import type { ProgressEvent } from '#core/execution/engines/progress.ts';
import { RunContinuesError } from '#core/runs/run-continues.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { LocalProgress } from './local-progress.ts';

const RUN_ID = '01890a5d-ac96-774b-bcce-b302099a8057';
const answer: CallAnswer = {
  data: { result: 'x' },
  warnings: [],
  executionMs: 1,
  stdout: '',
  stderr: '',
  usage: { input_tokens: 3, output_tokens: 2, cache_read_tokens: 1 },
};
const never = new AbortController().signal;

function begin(outcome: Promise<CallAnswer>) {
  const logged: string[] = [];
  const log = { error: (text: string) => void logged.push(text) } as never;
  let emit!: (event: ProgressEvent) => void;
  const { progress, work } = LocalProgress.of(
    { log },
    (given) => {
      emit = given;
      return outcome;
    },
    RUN_ID,
  );
  return { progress, work, logged, emit };
}

describe('the progress of a run in this process', () => {
  test('its events come in order, then its outcome', async () => {
    const { progress, work, emit } = begin(Promise.resolve(answer));
    emit({ type: 'text_delta', text: 'a' });
    emit({ type: 'text_delta', text: 'b' });
    await work;
    expect(progress.take()).toEqual({
      events: [
        { type: 'text_delta', text: 'a' },
        { type: 'text_delta', text: 'b' },
      ],
      isCut: false,
      outcome: { output: { result: 'x' }, usage: { inputTokens: 3, outputTokens: 2, cachedInputTokens: 1 } },
    });
  });

  test('a reader that waits is woken by an event, and by the end', async () => {
    const end = Promise.withResolvers<CallAnswer>();
    const { progress, emit } = begin(end.promise);
    const woken = progress.changed(new ManualClock(), 1000, never);
    emit({ type: 'sandbox_start' });
    expect(await woken).toBe(true);
    progress.take();
    const ended = progress.changed(new ManualClock(), 1000, never);
    end.resolve(answer);
    expect(await ended).toBe(true);
  });

  test('a reader that is too slow is told that events are missing, and no more is kept for it', async () => {
    const { progress, emit } = begin(new Promise(() => {}));
    for (let count = 0; count < 300; count++) emit({ type: 'text_delta', text: 'x'.repeat(4000) });
    expect(progress.take()).toEqual({ events: [], isCut: true, outcome: undefined });
  });

  test.each([
    [new PlatformError('LLM_ERROR', 'why'), { error: { code: 'LLM_ERROR', message: 'why' } }, 0],
    [new RunContinuesError(RUN_ID, 'wait'), 'continues', 0],
    [new Error('with a secret'), { error: { code: 'INTERNAL_ERROR' } }, 1],
  ])('%s', async (error, outcome, logs) => {
    const { progress, work, logged } = begin(Promise.reject(error));
    await work;
    const found = progress.take().outcome;
    if (typeof outcome === 'string') expect(found).toBe(outcome);
    else expect(found).toMatchObject(outcome);
    expect(JSON.stringify(found)).not.toContain('with a secret');
    expect(logged).toHaveLength(logs);
  });
});
