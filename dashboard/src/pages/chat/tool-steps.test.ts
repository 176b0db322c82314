import { expect, test } from 'vitest';
import { stepsOf } from './tool-steps.ts';

test('the beginning and the end of a call are one step, in the order of the beginnings', () => {
  const call = (event_type: string, span_id: string, more: object = {}) =>
    ({ event_type, span_id, payload: { tool_name: 'look', turn: 2 }, ...more }) as never;
  expect(
    stepsOf([
      call('llm_call_started', '0'),
      call('tool_call_started', '1', { content: { arguments: { text: '{"a":1}' } } }),
      call('tool_call_started', '2'),
      call('tool_call_failed', '2', { duration_ms: 20 }),
      call('tool_call_succeeded', '1', { duration_ms: 30, content: { result: { text: 'found' } } }),
      call('tool_call_started', '3'),
    ]),
  ).toEqual([
    { tool: 'look', turn: 2, status: 'ok', duration_ms: 30, arguments: '{"a":1}', result: 'found' },
    { tool: 'look', turn: 2, status: 'error', duration_ms: 20 },
    { tool: 'look', turn: 2, status: 'running' },
  ]);
});
