import { isPlatformError } from '#core/base/errors.ts';
import { beginCall } from '#core/execution/calls/answer-call.ts';
import type { StartedCall } from '#core/execution/calls/call.ts';
import type { CallAnswer } from '#core/execution/calls/finish.ts';
import { answerWhileHeld } from '#core/execution/calls/held-answer.ts';
import { refOf } from '#core/manifest/references.ts';
import type { Deps } from '#core/ports/deps.ts';
import {
  type Body,
  isLive,
  isTruncated,
  notOver,
  readBody,
  readCharged,
  readWireCall,
  textOf,
  type WireCall,
  type WireRequest,
} from './call.ts';
import { errorObject, refuse } from './errors.ts';
import { LiveText } from './live-text.ts';
import { readMessages } from './messages.ts';
import { WireStream } from './wire-stream.ts';

/** Answers a chat completion. Only its run is kept. Throws what a call throws. */
export async function createChatCompletion(deps: Deps, incoming: WireRequest) {
  const { body, wired } = await readCharged(deps, incoming, async () => {
    const body = await readBody(deps, incoming);
    if (body.n != null && body.n !== 1) refuse('n', 'must be 1: an agent gives one answer.');
    if (body.audio != null) refuse('audio', 'agents answer in text.');
    const conversation = readMessages(body.messages);
    const format = { value: body.response_format, param: 'response_format' };
    return { body, wired: await readWireCall(deps, incoming, { body, conversation, format }) };
  });
  const started = await beginCall(deps, incoming, wired.call);
  if (body.stream === true) return streamed(deps, incoming, { body, wired, started });
  const work = started.finish();
  deps.background(work.then(ignore, ignore));
  const answer = await answerWhileHeld(deps, started, work);
  if (answer === undefined) throw notOver(wired.call);
  const message = { role: 'assistant', content: textOf(answer.data, wired.isJson), refusal: null, annotations: [] };
  const choice = { index: 0, message, logprobs: null, finish_reason: finishReason(answer) };
  return {
    status: 200 as const,
    body: { ...headOf(wired, 'chat.completion'), choices: [choice], usage: usageOf(answer) },
  };
}

const finishReason = (answer: CallAnswer): string => (isTruncated(answer) ? 'length' : 'stop');

const headOf = ({ call: { agent, runId, receivedAt } }: WireCall, object: string) => ({
  id: `chatcmpl-${runId}`,
  object,
  created: Math.floor(receivedAt / 1000),
  model: refOf(agent),
});

function usageOf({ usage }: Pick<CallAnswer, 'usage'>) {
  const { input_tokens: prompt_tokens = 0, output_tokens: completion_tokens = 0, cache_read_tokens = 0 } = usage ?? {};
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: { cached_tokens: cache_read_tokens },
  };
}

interface Streamed {
  readonly body: Body;
  readonly wired: WireCall;
  readonly started: StartedCall;
}

function streamed(deps: Deps, { requestUuid }: WireRequest, { body, wired, started }: Streamed) {
  const stream = new WireStream(deps);
  const head = headOf(wired, 'chat.completion.chunk');
  const { include_usage: hasUsage = false } = (body.stream_options ?? {}) as { readonly include_usage?: boolean };
  const chunk = (delta: object, finish_reason: string | null = null): string =>
    record({
      ...head,
      choices: [{ index: 0, delta, logprobs: null, finish_reason }],
      ...(hasUsage && { usage: null }),
    });
  let isNext = false;
  const live = new LiveText(
    {
      reasoning: (text) => stream.send(chunk({ reasoning_content: text })),
      text: (text) => {
        stream.send(chunk({ content: isNext ? `\n\n${text}` : text }));
        isNext = false;
      },
      endText: () => {
        isNext = true;
      },
    },
    isLive(wired),
  );
  stream.begin(chunk({ role: 'assistant', content: '' }));
  const finish = async (): Promise<void> => {
    const work = started.finish((event) => live.push(event));
    deps.background(work.then(ignore, ignore));
    try {
      const answer = await answerWhileHeld(deps, started, work);
      if (answer === undefined) throw notOver(wired.call);
      live.finish(textOf(answer.data, wired.isJson));
      const usage = hasUsage ? record({ ...head, choices: [], usage: usageOf(answer) }) : '';
      stream.end(`${chunk({}, finishReason(answer))}${usage}data: [DONE]\n\n`);
    } catch (error) {
      if (!isPlatformError(error)) deps.log.error('run failed', { run_id: wired.call.runId, error: String(error) });
      stream.end(record({ error: errorObject(error, requestUuid) }));
    }
  };
  deps.background(finish());
  return {
    status: 200 as const,
    raw: { contentType: 'text/event-stream', content: stream.events },
    headers: { 'cache-control': 'no-cache' },
  };
}

/** Records of this protocol have no names. */
const record = (data: object): string => `data: ${JSON.stringify(data)}\n\n`;

const ignore = (): void => {};
