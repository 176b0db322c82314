import { describe, expect, test } from 'vitest';
import { rawAnswer } from './answers.ts';

describe('rawAnswer', () => {
  const shown = (status: number, asStream: boolean) => {
    const { raw, ...rest } = rawAnswer(
      { status, body: '{"a":1}', headers: { 'x-run-id': 'r' } },
      { isReplayed: true, asStream },
    );
    return { ...rest, type: raw.contentType, text: Buffer.from(raw.content as Uint8Array).toString() };
  };
  const headers = { 'x-run-id': 'r', 'idempotent-replayed': 'true' };

  test.each([
    [200, false, { status: 200, type: 'application/json', text: '{"a":1}' }],
    [502, false, { status: 502, type: 'application/json', text: '{"a":1}' }],
    [200, true, { status: 200, type: 'text/event-stream', text: 'event: result\ndata: {"a":1}\n\n' }],
    [502, true, { status: 200, type: 'text/event-stream', text: 'event: error\ndata: {"a":1}\n\n' }],
    [202, true, { status: 202, type: 'application/json', text: '{"a":1}' }],
  ])('sends a kept %i, as a stream: %s', (status, asStream, expected) => {
    expect(shown(status, asStream)).toEqual({ ...expected, headers });
  });
});
