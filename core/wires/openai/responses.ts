import { isPlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { beginCall } from '#core/execution/calls/answer-call.ts';
import { finishInBackground, type StartedCall } from '#core/execution/calls/call.ts';
import type { CallAnswer } from '#core/execution/calls/finish.ts';
import { answerWhileHeld } from '#core/execution/calls/held-answer.ts';
import { refOf } from '#core/manifest/references.ts';
import type { Deps } from '#core/ports/deps.ts';
import {
  type Body,
  isLive,
  isTruncated,
  readBody,
  readCharged,
  readWireCall,
  textOf,
  type WireCall,
  type WireRequest,
} from './call.ts';
import { errorObject, refuse } from './errors.ts';
import { LiveText } from './live-text.ts';
import { readInput } from './messages.ts';
import { ResponseEvents } from './response-events.ts';
import { conversationIdOf, responseIdOf } from './response-id.ts';
import { type OutputItem, type ResponseEnd, type ResponseHead, responseObject } from './response-object.ts';
import { stateFor } from './state.ts';
import { findResponse, watchResponse } from './stored-responses.ts';
import { watchedAnswer } from './watched-answer.ts';
import { WireStream } from './wire-stream.ts';

/** Answers a request for a response. Throws what a call throws. */
export async function createResponse(deps: Deps, incoming: WireRequest) {
  const { head, wired, body } = await readCharged(deps, incoming, () => readRequest(deps, incoming));
  const { call } = wired;
  const started = await beginCall(deps, incoming, call);
  if (body.background === true)
    return inBackground(deps, incoming, { head, started, isStreamed: body.stream === true });
  if (body.stream === true) return streamed(deps, incoming, { head, wired, started });
  const work = started.finish();
  deps.background(work.then(ignore, ignore));
  const answer = await answerWhileHeld(deps, started, work);
  if (answer === undefined)
    return { status: 200 as const, body: responseObject(head, { status: 'in_progress', output: [] }) };
  const text = textOf(answer.data, wired.isJson);
  const output: OutputItem[] = [{ type: 'message', id: `msg_${call.runId}_0`, text, isDone: true }];
  return { status: 200 as const, body: responseObject(head, { ...endOf(answer), output }) };
}

const endOf = (answer: CallAnswer): Omit<ResponseEnd, 'output'> => ({
  status: isTruncated(answer) ? 'incomplete' : 'completed',
  usage: answer.usage ?? { input_tokens: 0, output_tokens: 0 },
});

interface Read {
  readonly body: Body;
  readonly wired: WireCall;
  readonly head: ResponseHead;
}

async function readRequest(deps: Deps, incoming: WireRequest): Promise<Read> {
  const body = await readBody(deps, incoming);
  const { background, store, metadata } = body;
  for (const name of ['background', 'store', 'stream'] as const) {
    if (body[name] != null && typeof body[name] !== 'boolean') refuse(name, 'must be true or false.');
  }
  if (background === true && store === false)
    refuse('background', 'needs "store": true, as its response is read later.');
  const conversation = readInput(body.input, body.instructions);
  const { format } = (body.text ?? {}) as { readonly format?: Json };
  const wired = await readWireCall(deps, incoming, {
    body,
    conversation,
    format: { value: format, param: 'text.format' },
    isUnattended: background === true,
  });
  const { agent, runId, workspace } = wired.call;
  const state = await stateFor(deps, incoming, wired.call, body);
  const head: ResponseHead = {
    runId,
    id: responseIdOf(runId, workspace, incoming.caller.workspace),
    model: refOf(agent),
    createdAt: incoming.receivedAt,
    isBackground: background === true,
    isStored: store !== false,
    instructions: typeof body.instructions === 'string' ? body.instructions : undefined,
    metadata: metadata ?? undefined,
    previousId: typeof body.previous_response_id === 'string' ? body.previous_response_id : undefined,
    conversationId: state.session && conversationIdOf(state.session.id, workspace, incoming.caller.workspace),
    isJson: wired.isJson,
  };
  return { body, wired: { ...wired, call: { ...wired.call, ...state } }, head };
}

/** The run continues in the background. Clients poll its response, or follow it as the run writes it. */
async function inBackground(
  deps: Deps,
  incoming: WireRequest,
  {
    head,
    started,
    isStreamed,
  }: { readonly head: ResponseHead; readonly started: StartedCall; readonly isStreamed: boolean },
) {
  if (started.heldBy === undefined) finishInBackground(deps, started);
  const status = started.heldBy === undefined ? 'in_progress' : 'queued';
  if (!isStreamed) return { status: 200 as const, body: responseObject(head, { status, output: [] }) };
  const { caller, requestUuid } = incoming;
  const stored = await findResponse(deps, { ...incoming, params: { response_id: head.id } });
  // It takes no place among the streams of events: its run has one among the calls.
  return watchedAnswer(deps, await watchResponse(deps, stored, caller), {
    requestUuid,
    check: async () => {},
    onEnd: async () => {},
  });
}

function streamed(
  deps: Deps,
  { requestUuid }: WireRequest,
  { head, wired, started }: { readonly head: ResponseHead; readonly wired: WireCall; readonly started: StartedCall },
) {
  const stream = new WireStream(deps);
  /** The first records, and the last ones, are sent together. */
  let joined: string | undefined = '';
  const events = new ResponseEvents(head, (records) => {
    if (joined === undefined) stream.send(records);
    else joined += records;
  });
  const live = new LiveText(events, isLive(wired));
  events.begin();
  stream.begin(joined);
  joined = undefined;
  const end = (outcome: Omit<ResponseEnd, 'output'>): void => {
    joined = '';
    events.end(outcome);
    stream.end(joined);
  };
  const finish = async (): Promise<void> => {
    const work = started.finish((event) => live.push(event));
    deps.background(work.then(ignore, ignore));
    try {
      const answer = await answerWhileHeld(deps, started, work);
      // The client follows a run that is not over by its response's own stream.
      if (answer === undefined) return stream.end('');
      live.finish(textOf(answer.data, wired.isJson));
      end(endOf(answer));
    } catch (error) {
      if (!isPlatformError(error)) deps.log.error('run failed', { run_id: head.runId, error: String(error) });
      end({ status: 'failed', error: errorObject(error, requestUuid) });
    }
  };
  deps.background(finish());
  return {
    status: 200 as const,
    raw: { contentType: 'text/event-stream', content: stream.events },
    headers: { 'cache-control': 'no-cache' },
  };
}

const ignore = (): void => {};
