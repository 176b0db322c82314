import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import * as z from 'zod';
import { endDescendants } from '../sandbox/container-sandbox.ts';
import { jobSchema } from './job.ts';
import {
  type EventContent,
  type EventHead,
  type ProgramEvent,
  REUSE_HEADER,
  type RunnerProblem,
  WARM_HEADER,
} from './protocol.ts';

/** Interval at which a running command looks whether it was cancelled: Lambda does not tell that a caller has left. */
const CANCEL_LOOK_MS = 2_000;
/** One key for all: Lambda sends only the events of one tenant to an environment. */
const KEY = '0'.repeat(64);

const content = z.union([
  z.strictObject({ base64: z.string() }),
  z.strictObject({ url: z.url({ protocol: /^https?$/ }) }),
]);
const eventSchema: z.ZodType<ProgramEvent> = z.strictObject({
  job: jobSchema,
  files: z.array(z.strictObject({ path: z.string(), content })),
  exec: content,
  cancelUrl: z.url({ protocol: /^https?$/ }),
});

/**
 * Runs the events of a Lambda function, each in a session of the runner at `runner`, until one leaves something behind:
 * then Lambda starts another runner for the next one. Rejects without an answer if programs of a session do not end. The
 * next event is requested only when nothing of the last session is left, because any program here could request it,
 * too (docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html). A program that stays for it gets nothing by that: Lambda
 * sends events of one key only, which it would answer anyway.
 *
 * @param runtimeApi Host and port
 */
export async function serveInvocations(runtimeApi: string, runner: string): Promise<void> {
  for (;;) {
    const { id, event } = await nextEvent(runtimeApi);
    const answer = respond(runtimeApi, id);
    const isClean = await serveEvent(event, runner, answer.request);
    // Once the answer has ended, the next event can be requested.
    if (!isClean) await endDescendants();
    answer.request.end();
    await answer.sent;
    if (!isClean) return;
  }
}

/** Returns whether the runner is ready for another session. Otherwise the caller has its answer all the same. */
async function serveEvent(event: unknown, runner: string, output: ClientRequest): Promise<boolean> {
  const parsed = eventSchema.safeParse(event);
  if (!parsed.success) {
    // A value could be a secret.
    const [issue] = parsed.error.issues;
    const message = `${issue!.path.join('.') || 'the event'}: ${issue!.message}`;
    output.write(lineOf({ status: 400, problem: { error: { code: 'BAD_REQUEST', message } } }));
    return true;
  }
  const { job, files, exec, cancelUrl } = parsed.data;
  const headers = { authorization: `Bearer ${job.token}` };
  const opened = await fetch(`${runner}/session`, {
    method: 'POST',
    headers: { [REUSE_HEADER]: KEY },
    body: JSON.stringify(job),
  });
  if (await refused(opened, output)) return false;
  for (const { path, content } of files) {
    const url = `${runner}/files?${new URLSearchParams({ path })}`;
    const written = await fetch(url, { method: 'PUT', headers, body: await bytesOf(content) });
    if (await refused(written, output)) return closed(runner, headers);
  }
  const stop = new AbortController();
  const ended = new AbortController();
  const watching = cancelled(cancelUrl, ended.signal).then((isCancelled) => isCancelled && stop.abort());
  try {
    const body = await bytesOf(exec);
    const response = await fetch(`${runner}/exec`, { method: 'POST', headers, body, signal: stop.signal });
    if (await refused(response, output)) return await closed(runner, headers);
    output.write(lineOf({ status: response.status }));
    for await (const chunk of response.body!) {
      if (!output.write(chunk)) await once(output, 'drain', { signal: stop.signal });
    }
  } catch {
    // The command was cancelled, or the sandbox has ended.
  } finally {
    ended.abort();
    await watching;
  }
  return closed(runner, headers);
}

/** Passes a problem on. Returns whether there is one. */
async function refused(response: Response, output: ClientRequest): Promise<boolean> {
  if (response.ok) return false;
  const problem = (await response.json()) as RunnerProblem;
  output.write(lineOf({ status: response.status, problem }));
  return true;
}

/** Ends the session. Returns whether another one may follow. */
async function closed(runner: string, headers: Record<string, string>): Promise<boolean> {
  const response = await fetch(`${runner}/session`, { method: 'DELETE', headers }).catch(() => undefined);
  return Number(response?.headers.get(WARM_HEADER) ?? 0) > 0;
}

async function cancelled(url: string, ended: AbortSignal): Promise<boolean> {
  while (!ended.aborted) {
    await setTimeout(CANCEL_LOOK_MS, undefined, { signal: ended }).catch(() => {});
    if (ended.aborted) break;
    const response = await fetch(url, { signal: ended }).catch(() => undefined);
    await response?.body?.cancel().catch(() => {});
    if (response?.status === 200) return true;
  }
  return false;
}

async function bytesOf(content: EventContent): Promise<Uint8Array<ArrayBuffer>> {
  if ('base64' in content) return Buffer.from(content.base64, 'base64');
  const stored = await fetch(content.url);
  if (!stored.ok) throw new Error(`a part of the event is not there: ${stored.status}`);
  return new Uint8Array(await stored.arrayBuffer());
}

const lineOf = (head: EventHead): string => `${JSON.stringify(head)}\n`;

/** Waits for the next event, without a time limit: Lambda freezes the process meanwhile. */
async function nextEvent(runtimeApi: string): Promise<{ readonly id: string; readonly event: unknown }> {
  const asked = request(`http://${runtimeApi}/2018-06-01/runtime/invocation/next`, { agent: false }).end();
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  const text = Buffer.concat(await response.toArray()).toString();
  if (response.statusCode !== 200) throw new Error(`status ${response.statusCode}`);
  return { id: String(response.headers['lambda-runtime-aws-request-id']), event: JSON.parse(text) };
}

/** Begins the streamed answer to an event: docs.aws.amazon.com/lambda/latest/dg/runtimes-custom.html. */
function respond(runtimeApi: string, id: string) {
  const answer = request(`http://${runtimeApi}/2018-06-01/runtime/invocation/${id}/response`, {
    method: 'POST',
    agent: false,
    headers: {
      'content-type': 'application/octet-stream',
      'transfer-encoding': 'chunked',
      'lambda-runtime-function-response-mode': 'streaming',
    },
  });
  const sent = once(answer, 'response').then(([response]) => (response as IncomingMessage).resume());
  sent.catch(() => {});
  return { request: answer, sent };
}
