import { expect, test } from 'vitest';
import type { LlmAnswer, LlmMessage } from '#core/ports/llm.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { SecretMask } from '../masking/masking.ts';
import { Trace } from './trace.ts';
import { TraceContents } from './trace-content.ts';

const SECRET = 'hunter2-hunter2';
const contentsOf = (setting: 'errors' | 'all' = 'all') => new TraceContents(setting, new SecretMask({ TOKEN: SECRET }));
const user = (text: string): LlmMessage => ({ role: 'user', text });
const answerOf = (text: string, input?: object): LlmAnswer => {
  const toolCalls = input === undefined ? [] : [{ id: '1', name: 'bash', input: input as never }];
  const usage = { inputTokens: 1, outputTokens: 1 };
  return { text, toolCalls, finishReason: 'stop', usage, message: { role: 'assistant', text, toolCalls } };
};

test('each request has only messages that no earlier request had', () => {
  const contents = contentsOf();
  const first = user('why?');
  expect(contents.question({ system: 'Be brief.', messages: [first] }).messages).toMatchObject([
    { role: 'system', text: 'Be brief.', bytes: 9 },
    { role: 'user', text: 'why?' },
  ]);
  const answer = answerOf('Let me see.', { command: `echo ${SECRET}` });
  expect(contents.answer(answer).messages).toMatchObject([
    { role: 'assistant', text: 'Let me see.' },
    { role: 'tool_call', tool_name: 'bash', text: '{"command":"echo [secret TOKEN]"}' },
  ]);
  const result = { id: '1', name: 'bash', text: SECRET, isError: true };
  const messages: LlmMessage[] = [first, answer.message, { role: 'tool', results: [result] }];
  const news = { system: 'Be brief.', messages };
  const tool = { role: 'tool', tool_name: 'bash', text: '[secret TOKEN]', bytes: 14, is_error: true };
  expect(contents.question(news).messages).toEqual([tool]);
  expect(contents.question(news).messages).toEqual([]);
  // The message is converted for a model without image input.
  const other: LlmMessage = { role: 'tool', results: [result] };
  expect(contents.question({ ...news, messages: [first, answer.message, other] }).messages).toEqual([]);
});

test.each([
  ['in the middle of a long text', 'x'.repeat(8 * 1024 - 5) + SECRET + 'y'.repeat(100_000)],
  ['where the end of a long text begins', 'x'.repeat(100_000) + SECRET + 'y'.repeat(24 * 1024 - 60)],
  ['quoted in JSON', JSON.stringify(JSON.stringify({ [SECRET]: 'x'.repeat(50_000) }))],
])('a secret is masked before a text is cut: %s', (_, text) => {
  const { result } = contentsOf().result(text);
  expect(result).toMatchObject({ is_cut: true });
  expect(Buffer.byteLength(result!.text)).toBeLessThanOrEqual(32 * 1024);
  expect(result!.text).toMatch(/\d+ bytes left out/);
  for (let length = 6; length <= SECRET.length; length++) {
    expect(result!.text).not.toContain(SECRET.slice(0, length));
    expect(result!.text).not.toContain(SECRET.slice(-length));
  }
});

test('contents of a step, a run and the event stream stay within their limits for any conversation', () => {
  const contents = contentsOf();
  const many = Array.from({ length: 5000 }, (_, index) => user(`\u0000€${index}`.repeat(20_000)));
  const step = contents.question({ messages: many });
  expect(step.messages).toHaveLength(100);
  expect(step.left_out).toBe(4900);
  expect(step.messages!.every(({ is_cut, bytes }) => is_cut && bytes > 80_000)).toBe(true);
  const textBytes = step.messages!.reduce((bytes, { text }) => bytes + Buffer.byteLength(text), 0);
  expect(textBytes).toBeLessThanOrEqual(512 * 1024);
  const shown = contents.shownOf(step)!.messages!;
  expect(shown.reduce((bytes, { text }) => bytes + Buffer.byteLength(text), 0)).toBeLessThan(64 * 1024);
  for (let call = 0; call < 300; call++) contents.keep(call, contents.result('€'.repeat(100_000)));
  const kept = JSON.parse(contents.textFor({ isFailed: false })!) as Record<string, { result: { text: string } }>;
  const runBytes = Object.values(kept).reduce((bytes, { result }) => bytes + Buffer.byteLength(result.text), 0);
  expect(runBytes).toBeLessThanOrEqual(4 * 1024 * 1024 - textBytes);
  expect(kept[299]).toEqual({ result: { text: '', bytes: 300_000, is_cut: true } });
  // One tool call has no arguments, one has a name that the model made up.
  expect(contentsOf().call({ id: '1', name: 'x', input: undefined })).toEqual({ arguments: { text: '', bytes: 0 } });
  const long = contentsOf().answer({ ...answerOf(''), toolCalls: [{ id: '1', name: 'n'.repeat(9000), input: {} }] });
  expect(long.messages![0]!.tool_name).toHaveLength(64);
});

test('content is only built if it is stored, and only streamed if all runs store it', () => {
  const play = (contents?: TraceContents) => {
    const seen: object[] = [];
    let asked = 0;
    const trace = new Trace(new ManualClock(), (_, event) => seen.push(event), contents);
    for (let event = 0; event < 1001; event++) {
      trace.add({ event_type: 'tool_call_succeeded' }, (kept) => {
        asked++;
        return kept.result('4');
      });
    }
    return { trace, asked, shown: seen.filter((event) => 'content' in event).length };
  };
  expect(play()).toMatchObject({ asked: 0, shown: 0 });
  expect(play().trace.contentFor({ isFailed: true })).toBeUndefined();
  const errors = play(contentsOf('errors'));
  expect(errors).toMatchObject({ asked: 1000, shown: 0 });
  expect(errors.trace.contentFor({ isFailed: false })).toBeUndefined();
  expect(Object.keys(JSON.parse(errors.trace.contentFor({ isFailed: true })!))).toHaveLength(1000);
  expect(play(contentsOf()).shown).toBe(1000);
});
