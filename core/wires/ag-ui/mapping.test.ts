import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ProgressEvent } from '#core/execution/engines/progress.ts';
import type { Approval } from '#core/runs/approvals/approval.ts';
import type { End, TextKind } from '../run-mapping.ts';
import type { AgUiEvent } from './events.ts';
import { type AgUiRun, Mapping } from './mapping.ts';
import { type IdentifiedEvent, Numbering, type Place, placeOf, START } from './numbering.ts';

const RUN_ID = '01890a5d-ac96-774b-bcce-b302099a8057';
const RUN: AgUiRun = {
  threadId: 'thread',
  clientRunId: 'run',
  sessionId: 'ses_1',
  workspaceId: 'w',
  runId: RUN_ID,
  after: 0,
  answered: [],
};
const call = (number: number, tool = 'search', args_brief = '{"q":"x"}'): ProgressEvent => ({
  type: 'tool_call',
  turn: 1,
  call: number,
  tool,
  args_brief,
});
const result = (number: number, status: 'ok' | 'error' = 'ok', tool = 'search'): ProgressEvent => ({
  type: 'tool_result',
  turn: 1,
  call: number,
  tool,
  status,
});
const said = (text: string): ProgressEvent => ({ type: 'text_delta', text });
const turn = (number: number): ProgressEvent => ({ type: 'turn_start', turn: number, max_turns: 9 });

function eventsOf(
  progress: readonly ProgressEvent[],
  end: End,
  { text = 'words', run = RUN }: { readonly text?: TextKind; readonly run?: AgUiRun } = {},
): AgUiEvent[] {
  const mapping = new Mapping(run, text);
  return [...mapping.start(), ...progress.flatMap((event) => mapping.progress(event)), ...mapping.end(end)];
}

const brief = (events: readonly AgUiEvent[]): string[] =>
  events.map((event) => {
    const about = 'delta' in event ? event.delta : 'stepName' in event ? event.stepName : undefined;
    return about === undefined ? event.type : `${event.type} ${about}`;
  });

describe('the events of a run', () => {
  test('a turn with words and parallel calls of one tool, and the answer', () => {
    const progress = [
      turn(1),
      { type: 'reasoning_delta', text: 'hm' } as const,
      said('I look '),
      said('it up.'),
      call(1),
      call(2, 'bash', 'echo {'),
      result(2, 'error', 'bash'),
      result(1),
      turn(2),
      call(1, 'submit_result', ''),
      result(1, 'ok', 'submit_result'),
    ];
    const events = eventsOf(progress, { output: { result: 'Done.' }, usage: { inputTokens: 3, outputTokens: 2 } });
    expect(brief(events)).toEqual([
      'RUN_STARTED',
      'STEP_STARTED turn 1',
      'REASONING_START',
      'REASONING_MESSAGE_START',
      'REASONING_MESSAGE_CONTENT hm',
      'REASONING_MESSAGE_END',
      'REASONING_END',
      'TEXT_MESSAGE_START',
      'TEXT_MESSAGE_CONTENT I look ',
      'TEXT_MESSAGE_CONTENT it up.',
      'TEXT_MESSAGE_END',
      'TOOL_CALL_START',
      'TOOL_CALL_ARGS {"q":"x"}',
      'TOOL_CALL_END',
      'TOOL_CALL_START',
      'TOOL_CALL_ARGS {"brief":"echo {"}',
      'TOOL_CALL_END',
      'TOOL_CALL_RESULT',
      'TOOL_CALL_RESULT',
      'STEP_FINISHED turn 1',
      'STEP_STARTED turn 2',
      'STEP_FINISHED turn 2',
      'TEXT_MESSAGE_START',
      'TEXT_MESSAGE_CONTENT Done.',
      'TEXT_MESSAGE_END',
      'RUN_FINISHED',
    ]);
    const results = events.filter(({ type }) => type === 'TOOL_CALL_RESULT');
    expect(results).toMatchObject([
      { toolCallId: `${RUN_ID}.1.2`, content: '{"status":"error"}' },
      { toolCallId: `${RUN_ID}.1.1`, content: '{"status":"ok"}' },
    ]);
    expect(events.at(-1)).toEqual({
      type: 'RUN_FINISHED',
      threadId: 'thread',
      runId: 'run',
      outcome: { type: 'success' },
      result: { result: 'Done.' },
      usage: [{ inputTokens: 3, outputTokens: 2 }],
    });
  });

  test('what a prompt said is not said again, and the JSON of a prompt with a schema is not shown', () => {
    const spoken = (kind: TextKind, output: End) =>
      eventsOf([said('{"a": "b"}')], output, { text: kind }).flatMap((event) => ('delta' in event ? event.delta : []));
    expect(spoken('answer', { output: { a: 'b' } })).toEqual(['{"a": "b"}']);
    expect(spoken('hidden', { output: { a: 'b' } })).toEqual(['b']);
    expect(spoken('words', { output: '{"a": "b"} ' })).toEqual(['{"a": "b"}']);
  });

  test('text that is void is named', () => {
    const retry: ProgressEvent = {
      type: 'retry',
      turn: 1,
      attempt: 2,
      reason: 'LLM_ERROR',
      wait_ms: 1,
      discard_text: true,
    };
    const events = eventsOf([turn(1), said('no'), retry, said('yes')], { output: 'yes' });
    expect(events.find(({ type }) => type === 'CUSTOM')).toEqual({
      type: 'CUSTOM',
      name: 'platform.discarded',
      value: { message_ids: [`${RUN_ID}.0.1`] },
    });
    expect(events.flatMap((event) => ('delta' in event ? event.delta : []))).toEqual(['no', 'yes']);
  });

  test('failed and cancelled runs end what is open', () => {
    const error = (code: string): End => ({ error: { code, message: 'why' } });
    expect(eventsOf([turn(1), said('a')], error('LLM_ERROR')).slice(-3)).toMatchObject([
      { type: 'TEXT_MESSAGE_END' },
      { type: 'STEP_FINISHED' },
      { type: 'RUN_ERROR', code: 'LLM_ERROR', message: 'why' },
    ]);
    expect(eventsOf([said('a')], error('RUN_CANCELLED')).at(-1)).toMatchObject({
      type: 'RUN_FINISHED',
      outcome: { type: 'cancelled' },
    });
  });
});

describe('interrupts', () => {
  const approval = (number: number, more: Partial<Approval> = {}): Approval => ({
    workspaceId: 'w',
    runId: RUN_ID,
    agentName: 'a',
    agentVersion: 'v1',
    tenantId: null,
    kind: 'approve',
    turn: 1,
    call: number,
    tool: 'refund',
    args: { amount: 5 },
    schema: { type: 'object', properties: { amount: { type: 'number' } } },
    expiresAt: Date.parse('2026-01-02T03:04:05Z'),
    onTimeout: 'deny',
    status: 'waiting',
    askedAt: '2026-01-01T00:00:00.000Z',
    decision: null,
    decidedBy: null,
    decidedAt: null,
    ...more,
  });
  const waiting = (...numbers: number[]): Extract<ProgressEvent, { type: 'waiting' }> => ({
    type: 'waiting',
    approvals: numbers.map((number) => ({ id: `${RUN_ID}.1.${number}`, kind: 'approve', tool: 'refund' })),
    until: '2026-01-02T03:04:05.000Z',
  });

  test('name the calls that people are asked about, and not those that wait for a time', () => {
    const mapping = new Mapping(RUN, 'words');
    mapping.progress(turn(1));
    const events = mapping.interrupt([
      approval(1),
      approval(2, { kind: 'answer', tool: 'ask_human', question: 'Which?', options: ['a'] }),
      approval(3, { kind: 'time', tool: 'wait' }),
    ]);
    expect(brief(events)).toEqual([
      'TOOL_CALL_START',
      'TOOL_CALL_ARGS {"amount":5}',
      'TOOL_CALL_END',
      'TOOL_CALL_START',
      'TOOL_CALL_ARGS {"amount":5}',
      'TOOL_CALL_END',
      'STEP_FINISHED turn 1',
      'RUN_FINISHED',
    ]);
    expect(events.at(-1)).toMatchObject({
      outcome: {
        type: 'interrupt',
        interrupts: [
          {
            id: `${RUN_ID}.1.1`,
            reason: 'approval',
            message: 'May the agent call refund?',
            toolCallId: `${RUN_ID}.1.1`,
            responseSchema: { required: ['approved'] },
            expiresAt: '2026-01-02T03:04:05.000Z',
          },
          { id: `${RUN_ID}.1.2`, reason: 'question', message: 'Which?' },
        ],
      },
    });
  });

  test('the run that goes on has the result of the old call, and asks no question that was answered', () => {
    const run = { ...RUN, after: 7, answered: [`${RUN_ID}.1.1`] };
    const mapping = new Mapping(run, 'words');
    expect(mapping.isInterrupt(waiting(1))).toBe(false);
    expect(mapping.isInterrupt(waiting(1, 2))).toBe(true);
    const events = eventsOf([call(1, 'refund'), result(1)], { output: 'ok' }, { run });
    expect(brief(events).slice(1, 3)).toEqual(['TOOL_CALL_RESULT', 'TEXT_MESSAGE_START']);
    // A program tells no call of a tool.
    expect(brief(eventsOf([], { output: 'ok' }, { run })).slice(1, 3)).toEqual([
      'TOOL_CALL_RESULT',
      'TEXT_MESSAGE_START',
    ]);
  });
});

describe('places in a stream', () => {
  const received = (events: readonly IdentifiedEvent[]) => {
    const joined: AgUiEvent[] = [];
    for (const { event } of events) {
      const last = joined.at(-1);
      const adds = 'delta' in event && last !== undefined && 'delta' in last && last.type === event.type;
      if (adds && event.type !== 'TOOL_CALL_ARGS')
        joined[joined.length - 1] = { ...event, delta: last.delta + event.delta };
      else joined.push(event);
    }
    return joined;
  };
  const text = fc.string({ minLength: 1, maxLength: 6 });
  const anyEvent: fc.Arbitrary<ProgressEvent> = fc.oneof(
    { weight: 4, arbitrary: text.map(said) },
    text.map((each): ProgressEvent => ({ type: 'reasoning_delta', text: each })),
    fc.integer({ min: 1, max: 3 }).map(turn),
    fc.integer({ min: 1, max: 3 }).map((number) => call(number)),
    fc.integer({ min: 1, max: 3 }).map((number) => result(number)),
    fc.constant<ProgressEvent>({ type: 'heartbeat' }),
  );
  /** Returns progress as it is stored: texts of one kind that follow each other are one. */
  const stored = (progress: readonly ProgressEvent[]) => {
    const kept: ProgressEvent[] = [];
    for (const event of progress) {
      const last = kept.at(-1);
      if ('text' in event && last !== undefined && 'text' in last && last.type === event.type) {
        kept[kept.length - 1] = { ...event, text: last.text + event.text };
      } else if (event.type !== 'heartbeat') kept.push(event);
    }
    return kept;
  };

  test('a stream that broke anywhere is resumed from what is stored, without loss or doubling', () => {
    fc.assert(
      fc.property(fc.array(anyEvent, { maxLength: 30 }), text, fc.nat(), (progress, output, cut) => {
        const live = new Numbering(START).add(eventsOf(progress, { output }));
        const seen = live.slice(0, cut % (live.length + 1));
        const after: Place = seen.length === 0 ? START : placeOf(seen.at(-1)!.id)!;
        const rest = new Numbering(after).add(eventsOf(stored(progress), { output }));
        expect(received([...seen, ...rest])).toEqual(received(live));
      }),
    );
  });

  test('an id is two numbers', () => {
    expect(placeOf('12.340')).toEqual({ events: 12, characters: 340 });
    expect(['', '1', '1.2.3', '-1.2', '1.x', '1234567890.1'].map(placeOf)).toEqual(Array(6).fill(undefined));
  });
});
