import type { Json } from '#core/base/json.ts';
import type { Run, RunBody } from '../run.ts';
import type { TraceEvent } from '../trace/trace.ts';
import type { ContentMessage, TraceContent } from '../trace/trace-content.ts';
import { ERROR_TYPE, finishReason, GEN_AI, OPERATIONS, OWN, providerName } from './names.ts';
import type { Attributes, Span } from './otlp.ts';
import { parentSpanId, partSpanId, spanOfRun } from './span-ids.ts';

/** Maximum length of one text in an attribute. */
const MAX_TEXT = 32 * 1024;
const MAX_MESSAGE = 1000;

/** A run that has ended, as its record has it: all texts are masked. */
export interface EndedRunRecord {
  readonly run: Run;
  readonly body: Pick<RunBody, 'trace' | 'input' | 'output'>;
  /** Contents of the trace's events by their number. Absent if contents are not sent. */
  readonly contents?: Readonly<Record<string, TraceContent>> | undefined;
}

/** Returns the spans of a run: its own first, then its parts (`docs/interface/telemetry.md#spans`). */
export function spansOf(record: EndedRunRecord): Span[] {
  const { run, body } = record;
  const own = spanOfRun(run);
  const startedAt = Date.parse(run.startedAt);
  const endedAt = startedAt + (run.durationMs ?? 0);
  const parts = new Map<number, Part>();
  const notes = new Map<number, NonNullable<Span['events']>[number][]>();
  for (const [index, event] of body.trace.entries()) {
    const content = record.contents?.[index];
    if (event.span !== undefined) addPart(parts, event.span, { event, content });
    else {
      const parent = event.parent ?? 0;
      notes.set(parent, [...(notes.get(parent) ?? []), noteOf(event)]);
    }
  }
  const agent = `${run.agentOrg}/${run.agentName}`;
  const root: Span = {
    traceId: own.traceId,
    spanId: own.spanId,
    parentSpanId: parentSpanId(run),
    name: `${OPERATIONS.agent} ${agent}`,
    kind: 'internal',
    startedAt,
    endedAt,
    attributes: { ...runAttributes(run, agent), ...(record.contents && bodyAttributes(body)) },
    events: notes.get(0) ?? [],
    ...(run.status !== 'completed' && { failure: (run.errorMessage ?? run.status).slice(0, MAX_MESSAGE) }),
  };
  return [
    root,
    ...[...parts].map(([number, { start, end }]): Span => {
      const { event } = (end ?? start)!;
      const endAt = end?.event.at ?? endedAt;
      const parent = start?.event.parent ?? event.parent;
      return {
        traceId: own.traceId,
        spanId: partSpanId(run.id, number),
        parentSpanId: parent && parts.has(parent) ? partSpanId(run.id, parent) : own.spanId,
        startedAt: start?.event.at ?? endAt - (event.duration_ms ?? 0),
        endedAt: endAt,
        ...describe({ start, end }),
        events: notes.get(number) ?? [],
        ...failureOf({ start, end }),
      };
    }),
  ];
}

interface Told {
  readonly event: TraceEvent;
  readonly content: TraceContent | undefined;
}
/** Events of a span: the record of some kinds has the end only, and a run that was lost may lack the end. */
interface Part {
  readonly start?: Told | undefined;
  readonly end?: Told | undefined;
}

function addPart(parts: Map<number, Part>, span: number, told: Told): void {
  const isStart = told.event.event_type.endsWith('_started');
  parts.set(span, { ...parts.get(span), [isStart ? 'start' : 'end']: told });
}

const runAttributes = (run: Run, agent: string): Attributes => ({
  [GEN_AI.operation]: OPERATIONS.agent,
  [GEN_AI.agent]: agent,
  [GEN_AI.conversation]: run.sessionId ?? undefined,
  [ERROR_TYPE]: run.status === 'completed' ? undefined : (run.errorCode ?? run.status),
  [OWN.run]: run.id,
  [OWN.rootRun]: run.rootRunId,
  [OWN.workspace]: run.workspaceId,
  [OWN.version]: run.agentVersion,
  [OWN.status]: run.status,
  [OWN.trigger]: run.triggerSource,
  [OWN.tenant]: run.tenantId ?? undefined,
  [OWN.schedule]: run.scheduleId ?? undefined,
  [OWN.replayOf]: run.replayOf ?? undefined,
  [OWN.costUsd]: run.costUsd ?? undefined,
});

const bodyAttributes = ({ input, output }: Pick<RunBody, 'input' | 'output'>): Attributes => ({
  [GEN_AI.inputMessages]: input === null ? undefined : messages([textMessage('user', textOf(input))]),
  [GEN_AI.outputMessages]: output === null ? undefined : messages([textMessage('assistant', textOf(output))]),
});

const textIn = (value: Json | undefined): string | undefined => (typeof value === 'string' ? value : undefined);
const textOf = (value: Json): string => (typeof value === 'string' ? value : JSON.stringify(value));

/** Name, kind and attributes of a part. */
function describe(part: Part): Pick<Span, 'name' | 'kind' | 'attributes'> {
  const { event } = (part.end ?? part.start)!;
  const common: Attributes = {
    [ERROR_TYPE]: isFailed(event) ? (event.error_type ?? '_OTHER') : undefined,
    [OWN.costUsd]: event.cost_usd,
    [OWN.isUnfinished]: part.end === undefined ? true : undefined,
  };
  if (event.event_type.startsWith('llm_call_')) return chatOf(part, event, common);
  const payload = event.payload ?? part.start?.event.payload ?? {};
  if (event.event_type.startsWith('tool_call_')) {
    const tool = String(payload.tool_name ?? 'unknown');
    return {
      name: `${OPERATIONS.tool} ${tool}`,
      kind: 'internal',
      attributes: {
        [GEN_AI.operation]: OPERATIONS.tool,
        [GEN_AI.tool]: tool,
        [GEN_AI.toolCallId]: textIn(part.start?.event.payload?.call_id),
        [GEN_AI.toolType]: 'function',
        ...common,
        [GEN_AI.toolArguments]: cut(part.start?.content?.arguments?.text),
        [GEN_AI.toolResult]: cut(part.end?.content?.result?.text),
      },
    };
  }
  const kind = event.event_type.replace(/_(started|succeeded|failed)$/, '');
  return { name: kind, kind: 'internal', attributes: { ...common, ...payloadAttributes(payload) } };
}

function chatOf(
  { start, end }: Part,
  event: TraceEvent,
  common: Attributes,
): Pick<Span, 'name' | 'kind' | 'attributes'> {
  const { model = 'unknown', provider = 'unknown' } = event;
  const asked = start?.content?.messages ?? [];
  const system = asked.filter(({ role }) => role === 'system');
  const said = asked.filter(({ role }) => role !== 'system');
  const answered = end?.content?.messages ?? [];
  const reason = textIn(end?.event.payload?.finish_reason);
  return {
    name: `${OPERATIONS.chat} ${model}`,
    kind: 'client',
    attributes: {
      [GEN_AI.operation]: OPERATIONS.chat,
      [GEN_AI.provider]: providerName(provider, start?.event.payload?.via),
      [GEN_AI.requestModel]: model,
      [GEN_AI.finishReasons]: reason === undefined ? undefined : [finishReason(reason)],
      [GEN_AI.inputTokens]: event.token_input,
      [GEN_AI.outputTokens]: event.token_output,
      [GEN_AI.cacheReadTokens]: event.cache_read_tokens,
      [GEN_AI.cacheWriteTokens]: event.cache_write_tokens,
      ...common,
      ...(system.length > 0 && { [GEN_AI.systemInstructions]: messages(system.map(({ text }) => textPart(text))) }),
      ...(said.length > 0 && { [GEN_AI.inputMessages]: messages(said.map(messageOf)) }),
      ...(answered.length > 0 && { [GEN_AI.outputMessages]: messages(answered.map(messageOf)) }),
    },
  };
}

function failureOf({ start, end }: Part): Pick<Span, 'failure'> {
  const { event } = (end ?? start)!;
  if (!isFailed(event)) return {};
  return { failure: (event.error_message ?? event.error_type ?? 'failed').slice(0, MAX_MESSAGE) };
}

const isFailed = ({ event_type }: TraceEvent): boolean => event_type.endsWith('_failed');

/** What takes no time, as an event of the span that it belongs to. */
const noteOf = ({ event_type, at, payload, error_type, error_message }: TraceEvent) => ({
  name: event_type,
  at,
  attributes: {
    ...payloadAttributes(payload ?? {}),
    [ERROR_TYPE]: error_type,
    'error.message': error_message?.slice(0, MAX_MESSAGE),
  },
});

const payloadAttributes = (payload: NonNullable<TraceEvent['payload']>): Attributes =>
  Object.fromEntries(
    Object.entries(payload).map(([name, value]) => [
      `platform.${name}`,
      typeof value === 'number' || typeof value === 'boolean' ? value : textOf(value).slice(0, MAX_MESSAGE),
    ]),
  );

/** Messages in the form of the conventions: a role, and parts with types. */
const messageOf = ({ role, text, tool_name }: ContentMessage): Json => {
  if (role === 'tool_call') {
    return { role: 'assistant', parts: [{ type: 'tool_call', name: tool_name ?? '', arguments: text }] };
  }
  return role === 'tool'
    ? { role, parts: [{ type: 'tool_call_response', name: tool_name ?? '', response: text }] }
    : textMessage(role, text);
};

const textPart = (content: string): Json => ({ type: 'text', content });
const textMessage = (role: string, content: string): Json => ({ role, parts: [textPart(cut(content)!)] });
const cut = (text: string | undefined): string | undefined =>
  text !== undefined && text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}...` : text;

/** Leaves out the first messages of many, so that the attribute stays JSON. */
function messages(all: readonly Json[]): string {
  let size = 0;
  const last = all.findLastIndex((message) => {
    size += JSON.stringify(message).length;
    return size > 4 * MAX_TEXT;
  });
  return JSON.stringify(all.slice(Math.min(last + 1, all.length - 1)));
}
