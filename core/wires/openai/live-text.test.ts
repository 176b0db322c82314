import { describe, expect, test } from 'vitest';
import type { ProgressEvent } from '#core/execution/engines/progress.ts';
import { LiveText } from './live-text.ts';

/** Plays events, and returns what a client gets: texts, with `|` where one ends. */
function shown(events: readonly (ProgressEvent | string)[], answer: string, isLive = true): string {
  let all = '';
  const live = new LiveText(
    {
      reasoning: (text) => {
        all += `<${text}>`;
      },
      text: (text) => {
        all += text;
      },
      endText: () => {
        all += '|';
      },
    },
    isLive,
  );
  for (const event of events) live.push(typeof event === 'string' ? { type: 'text_delta', text: event } : event);
  live.finish(answer);
  return all;
}

const tool: ProgressEvent = { type: 'tool_call', turn: 1, tool: 'bash', args_brief: '' } as ProgressEvent;
const again: ProgressEvent = {
  type: 'retry',
  turn: 1,
  attempt: 2,
  reason: 'LLM_ERROR',
  wait_ms: 0,
  discard_text: true,
};
const thought: ProgressEvent = { type: 'reasoning_delta', text: 'hm' };

describe('text that is sent as it is written', () => {
  test.each<[string, (ProgressEvent | string)[], string, string]>([
    ['is the answer', ['One ', 'two'], 'One two', 'One two'],
    ['is completed', ['One '], 'One two', 'One two'],
    ['is JSON as the model wrote it', ['{"reply": "x"}'], 'x', '{"reply": "x"}'],
    ['is nothing, so the answer comes at once', [], 'One', 'One'],
    ['is nothing at all', [], '', ''],
    ['ends before tools', ['I look.', tool, 'Done.'], 'Done.', 'I look.|Done.'],
    ['ends before a tool that has the answer', ['I look.', tool], 'Done.', 'I look.|Done.'],
    ['is the result that a tool repeats', ['Done.', tool], 'Done.', 'Done.|'],
    ['has thoughts before it', [thought, 'Done.'], 'Done.', '<hm>Done.'],
  ])('%s', (_, events, answer, text) => {
    expect(shown(events, answer)).toBe(text);
  });
});

describe('text that is said again after an interruption', () => {
  test.each<[string, (ProgressEvent | string)[], string, string]>([
    ['and is the same', ['One tw', again, 'One', ' two', ' three'], 'One two three', 'One two three'],
    ['and is another', ['One tw', again, 'Four', ' five'], 'Four five', 'One tw|Four five'],
    ['and is shorter', ['One two', again, 'One'], 'One', 'One two|One'],
    ['before anything was sent', [again, 'One'], 'One', 'One'],
    ['and never comes', ['One tw', again], 'Three', 'One tw|Three'],
  ])('%s', (_, events, answer, text) => {
    expect(shown(events, answer)).toBe(text);
  });
});

test('the text of an agent with a schema is only its answer', () => {
  expect(shown([thought, '{"reply"', ': "x"}', tool], 'x', false)).toBe('<hm>x');
});
