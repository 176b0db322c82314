import { expect, test } from 'vitest';
import type { AgentCaller } from '#core/base/caller.ts';
import { callerTrace } from './caller-trace.ts';
import type { Call } from './prepare.ts';
import { tracingOf } from './tracing.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';
const RUN = 'aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee';
const ROOT = '11111111-1111-4111-8111-111111111111';
const headers = (traceparent?: string, tracestate?: string): Headers =>
  new Headers({ ...(traceparent && { traceparent }), ...(tracestate && { tracestate }) });
const traced = (call: Partial<Call>) => tracingOf({ runId: RUN, lineage: {}, ...call } as Call);

/** The run `RUN` of the chain `ROOT`. */
const caller = (trace?: string, telemetry?: boolean) =>
  ({
    kind: 'run',
    runId: RUN,
    context: { rootRunId: ROOT, trace },
    workspace: { telemetry },
  }) as unknown as AgentCaller;

test('a run continues the trace of its caller, with its own span', async () => {
  const { trace } = await callerTrace(headers(`00-${TRACE}-${SPAN}-00`, 'a=1'));
  const tracing = traced({ trace });
  expect(tracing.stored).toBe(`${TRACE}${SPAN}0`);
  expect(tracing.own).toBe(`${TRACE}8dddeeeeeeeeeeee0`);
  expect(tracing.headers()).toEqual({ traceparent: `00-${TRACE}-8dddeeeeeeeeeeee-00`, tracestate: 'a=1' });
  expect(tracing.environment).toEqual({ TRACEPARENT: `00-${TRACE}-8dddeeeeeeeeeeee-00`, TRACESTATE: 'a=1' });
  expect(tracing.headers(3).traceparent).toMatch(new RegExp(`^00-${TRACE}-(?!8ddd)[0-9a-f]{16}-00$`));
  expect(tracing.headers(3)).toEqual(tracing.headers(3));
});

test('a run without a traced caller stores nothing, and its ids follow from those of runs', () => {
  expect(traced({}).headers()).toEqual({ traceparent: `00-${RUN.replaceAll('-', '')}-8dddeeeeeeeeeeee-01` });
  const tracing = traced({ lineage: { rootRunId: ROOT } as Call['lineage'] });
  expect(tracing.headers()).toEqual({ traceparent: `00-${ROOT.replaceAll('-', '')}-8dddeeeeeeeeeeee-01` });
  expect([tracing.stored, tracing.own]).toEqual([undefined, undefined]);
});

test('a sub-call stays in the trace of the calling run, whatever its program sends', async () => {
  const own = `${TRACE}8dddeeeeeeeeeeee1`;
  const other = `00-${'c'.repeat(32)}-${SPAN}-01`;
  const inTrace = { trace: { traceId: TRACE, spanId: '8dddeeeeeeeeeeee', sampled: true } };
  expect(await callerTrace(headers(), caller(own))).toEqual(inTrace);
  expect(await callerTrace(headers(other), caller(own))).toEqual(inTrace);
  const within = await callerTrace(headers(`00-${TRACE}-${SPAN}-01`), caller(own));
  expect(within.trace?.spanId).toBe(SPAN);
  // A chain whose trace began here.
  expect(await callerTrace(headers(), caller(undefined, true))).toEqual({});
  expect(await callerTrace(headers(other), caller(undefined, true))).toEqual({});
  const derived = await callerTrace(headers(`00-${ROOT.replaceAll('-', '')}-${SPAN}-01`), caller(undefined, true));
  expect(derived.trace?.spanId).toBe(SPAN);
  // Nobody traces the chain but its program.
  expect((await callerTrace(headers(other), caller())).trace?.traceId).toBe('c'.repeat(32));
});

test('nonsense is no trace', async () => {
  expect(await callerTrace(headers('nonsense'))).toEqual({});
  expect(await callerTrace(headers())).toEqual({});
});
