import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Client } from '#core/api/client.ts';
import type { Cli } from './cli.ts';
import type { FollowedEvent } from './follow.ts';
import { Output } from './output.ts';
import { RunBar } from './run-bar.ts';

beforeEach(() => void vi.useFakeTimers({ now: Date.parse('2035-06-01T12:00:40Z') }));
afterEach(() => void vi.useRealTimers());

const PARAMS = { workspace_id: 'w', run_id: 'r' };
const RUN = { started_at: '2035-06-01T12:00:00Z', deadline: '2035-06-01T14:00:50Z' };
const client = { getRun: async () => RUN } as unknown as Client;

function start(settings: { json?: boolean; quiet?: boolean; isTTY?: boolean; isLive?: boolean } = {}) {
  const { json = false, quiet = false, isTTY = true, isLive = true } = settings;
  const written: string[] = [];
  const terminal = { isTTY, columns: 80, write: (text: string) => written.push(text) };
  const output = new Output({ stdout: terminal, stderr: terminal, json, quiet, color: false, isLive });
  return { output, bar: new RunBar({ output } as Cli), written };
}

const event = (type: string, data: object): FollowedEvent => ({ id: '1', type, created_at: '', data: { ...data } });
const step = (event_type: string, span_id: string, more = {}) => event('trace', { event_type, span_id, ...more });

test('says what a run does now: turn, model or tool, money, elapsed time and time left', async () => {
  const { bar, written } = start();
  await bar.read(client, PARAMS);
  expect(written.at(-1)).toBe('running, 40 s, 2 h 0 min left');
  bar.tell(event('progress', { type: 'turn_start', turn: 2, max_turns: 20 }));
  bar.tell(step('llm_call_started', 'a', { model: 'claude-haiku-5.5' }));
  expect(written.at(-1)).toBe('turn 2 of 20, claude-haiku-5.5, 40 s, 2 h 0 min left');
  bar.tell(step('llm_call_succeeded', 'a', { cost_usd: 0.0123 }));
  bar.tell(step('tool_call_started', 'b', { payload: { tool_name: 'read\u001b[31m_file' } }));
  expect(written.at(-1)).toBe('turn 2 of 20, read_file, $0.0123, 40 s, 2 h 0 min left');
  vi.advanceTimersByTime(30_000);
  expect(written.at(-1)).toBe('turn 2 of 20, read_file, $0.0123, 1 min 10 s, 1 h 59 min left');
  bar.tell(step('tool_call_failed', 'b'));
  bar.tell(event('sub_call', { run_id: 's', agent_name: 'leaf', completed_at: null }));
  expect(written.at(-1)).toContain(', leaf, ');
  bar.tell(event('sub_call', { run_id: 's', agent_name: 'leaf', completed_at: 'x', cost_usd: 2 }));
  expect(written.at(-1)).toContain(', running, $2.01, ');
  bar.tell(event('end', { status: 'completed' }));
  expect(written.at(-1)).toMatch(/^\r +\r$/);
  const ended = written.length;
  vi.advanceTimersByTime(5_000);
  expect(written).toHaveLength(ended);
});

test('keeps out of the way of other output', () => {
  const { output, bar, written } = start();
  vi.advanceTimersByTime(1_000);
  expect(written.splice(0)).toEqual(['running, 1 s']);
  output.note('a note');
  expect(written.splice(0)).toEqual([`\r${' '.repeat(12)}\r`, 'a note\n', 'running, 1 s']);
  output.part('half a');
  // Below half a line is no place for it.
  vi.advanceTimersByTime(1_000);
  output.part(' line\n');
  expect(written.splice(0)).toEqual([`\r${' '.repeat(12)}\r`, 'half a', ' line\n', 'running, 2 s']);
  bar.end();
});

test.each([{ json: true }, { quiet: true }, { isLive: false }, { isTTY: false }])(
  'shows nothing with %j',
  async (settings) => {
    const { bar, written } = start(settings);
    await bar.read(client, PARAMS);
    bar.tell(event('progress', { type: 'turn_start', turn: 2, max_turns: 20 }));
    vi.advanceTimersByTime(5_000);
    bar.end();
    expect(written).toEqual([]);
  },
);
