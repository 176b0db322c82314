import { expect, test } from 'vitest';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { headKey, runFrom } from '../items.ts';
import { Trace } from './trace.ts';
import { spanIdOf, traceEventView, withSubCalls } from './trace-view.ts';

const RUN = '0123abcd-ef45-4678-9abc-def012345678';
const CALLED = 'ffffabcd-ef45-4678-9abc-def012345678';

test.each([0, 100])('the spans of a chain are a tree by ids alone, a tool %i ms after its sandbox', async (pause) => {
  const clock = new ManualClock();
  const trace = new Trace(clock);
  const sandbox = trace.open('sandbox');
  await clock.advance(pause);
  const tool = trace.begin({ event_type: 'tool_call_started', payload: { tool_name: 'bash' } });
  await clock.advance(50);
  const gsi2sk = new Date(clock.now()).toISOString();
  await clock.advance(200);
  trace.add({ event_type: 'tool_call_succeeded', span: tool, duration_ms: 250 });
  trace.end();
  const head = { ...headKey('w', CALLED), deadline: clock.now(), gsi2sk };
  const call = runFrom({ ...head, status: 'completed', duration_ms: 150, agent_name: 'below' }, clock.now());
  const steps = withSubCalls(RUN, trace.events, [call]);
  expect(steps.map(({ event_type, span_id, parent_span_id }) => [event_type, span_id, parent_span_id])).toEqual([
    ['tool_call_started', spanIdOf(RUN, tool), spanIdOf(RUN, 0)],
    ['sub_call_succeeded', spanIdOf(CALLED, 0), spanIdOf(RUN, tool)],
    ['tool_call_succeeded', spanIdOf(RUN, tool), spanIdOf(RUN, 0)],
    ['sandbox_succeeded', spanIdOf(RUN, sandbox), spanIdOf(RUN, 0)],
  ]);
  expect(steps.at(-1)).toMatchObject({
    duration_ms: pause + 250,
    started_at: '2035-06-01T12:00:00.000Z',
    ended_at: `2035-06-01T12:00:00.${pause + 250}Z`,
  });
});

test('waits that are open at the end of a run have failed; steps of older records have no span', () => {
  const clock = new ManualClock();
  const trace = new Trace(clock);
  const sandbox = trace.open('sandbox');
  trace.open('queue', { parent: sandbox });
  trace.end();
  expect(trace.events.map(({ event_type }) => event_type)).toEqual(['queue_failed', 'sandbox_succeeded']);
  expect(traceEventView(RUN, { event_type: 'llm_call_started', at: clock.now() })).not.toHaveProperty('span_id');
  expect(new Set([0, 1, 2, 1000].map((span) => spanIdOf(RUN, span))).size).toBe(4);
});
