import type {
  Egress,
  EgressTargets,
  ExecEvent,
  ExecExit,
  SandboxLimits,
  SandboxReuse,
  SandboxSpec,
} from '#core/ports/sandbox.ts';
import type { Gateway, Registries } from '../sandbox/egress-proxy.ts';
import { decodeFrames, encodeFrame } from '../sandbox/frames.ts';

/**
 * HTTP between the platform and a runner: the program that serves one sandbox, in a task, a VM or a test process.
 *
 * | request                          | response                                                                    |
 * | -------------------------------- | --------------------------------------------------------------------------- |
 * | `GET /health`                    | 200, {@link RunnerHealth}                                                   |
 * | `POST /session` {@link RunnerJob} | 201 once bundle and layer are ready; 409 while a session is open               |
 * | `POST /exec` ({@link encodeExec}) | 200, frames ({@link decodeEvents}), the last one the exit                  |
 * | `PUT /files?path=` content       | 204                                                                         |
 * | `GET /files?path=`               | 200, content; aborts if the rest cannot be read                             |
 * | `GET /list?path=&recursive=true` | 200, `{ files: SandboxFile[] }`                                             |
 * | `DELETE /session`                | 204 once all processes of the job are gone; then the runner ends, or serves the next session |
 *
 * A runner serves a further session only if both have the same {@link REUSE_HEADER} in `POST /session`, if the last one
 * ended cleanly, and if nothing is left of it but a program that may stay ({@link RunnerJob.reuse}). The response to `DELETE /session` then has {@link WARM_HEADER}.
 *
 * All but the first two need `Authorization: Bearer <token of the job>`. Errors are {@link RunnerProblem}; status 422
 * is for errors that the job's author can fix. Aborting a request ends the command that it started.
 */
export interface RunnerJob {
  /** Random, at least 32 characters. All further requests must present it. */
  readonly token: string;
  /** Milliseconds after which the runner kills everything and ends, even in the middle of a command. */
  readonly lifetimeMs: number;
  readonly bundle?: BlobLink;
  readonly layer?: BlobLink;
  /** See {@link SandboxSpec.layerSha256}. */
  readonly layerSha256?: string;
  readonly env: Readonly<Record<string, string>>;
  readonly egress: Egress;
  readonly egressTargets?: EgressTargets;
  readonly purpose: SandboxSpec['purpose'];
  readonly limits: SandboxLimits;
  /** The one allowed private address. Only set if the platform's own address is private, as in tests. */
  readonly gateway?: Gateway;
  readonly registries?: Registries;
  /**
   * Lets the program that answers an input ({@link ExecHead.call}) stay for the session that follows, in place of the
   * runner's cleaning up.
   */
  readonly reuse?: Pick<SandboxReuse, 'idleMs' | 'maxUses'>;
}

/** A blob's key and the address to GET it from, without additional headers. */
export interface BlobLink {
  readonly key: string;
  readonly url: string;
}

export interface RunnerHealth {
  readonly state: 'idle' | 'claimed';
  readonly interpreters: { readonly python?: string; readonly node?: string };
  /** `container`: only the task or VM around the runner isolates. */
  readonly isolation: 'unshare' | 'bubblewrap' | 'container';
}

export interface RunnerProblem {
  readonly error: {
    readonly code:
      | 'SANDBOX_FILE'
      | 'SANDBOX_LAYER'
      | 'SANDBOX_UNAVAILABLE'
      | 'CLAIMED'
      | 'UNAUTHORIZED'
      | 'BAD_REQUEST'
      | 'FAILED';
    readonly message: string;
  };
}

export interface ExecHead {
  readonly command: string;
  readonly cwd?: string;
  readonly timeoutMs: number;
  readonly endsAll?: boolean;
  readonly maxOutputBytes?: number;
  /** See `ExecRequest.call`. */
  readonly call?: string;
}

/** Key that sessions must share to run on the same runner: 64 hex digits. Without it, the runner serves one session. */
export const REUSE_HEADER = 'x-runner-reuse';
/** In `DELETE /session`: the runner ends in any case. */
export const LAST_HEADER = 'x-runner-last';
/** Milliseconds for which the runner waits for the next session. */
export const WARM_HEADER = 'x-runner-warm-ms';

/** Content that an event carries itself, in base64, or the address to GET it from. */
export type EventContent = { readonly base64: string } | { readonly url: string };

/**
 * Event of a Lambda function that runs one command in a session of its own. The function streams an {@link EventHead} as a
 * line of JSON, then the frames of `POST /exec`.
 */
export interface ProgramEvent {
  readonly job: RunnerJob;
  /** Files to write before the command. */
  readonly files: readonly { readonly path: string; readonly content: EventContent }[];
  /** {@link encodeExec} */
  readonly exec: EventContent;
  /** Address that answers with status 200 once the command must end. */
  readonly cancelUrl: string;
}

/** Status of the request that opened the session, wrote a file or began the command; `problem` if one of them failed. */
export interface EventHead {
  readonly status: number;
  readonly problem?: RunnerProblem;
}

/** Port of the runner's image. */
export const RUNNER_PORT = 8080;
/** Interval of heartbeats while a command is silent. */
export const HEARTBEAT_MS = 5_000;
/** Idle timeout after which the runner or the network counts as failed. */
export const SILENCE_MS = 30_000;

const HEAD_BYTES = 4;
const TYPES = { o: 'stdout', e: 'stderr' } as const;

/** Encodes the body of `POST /exec`: 32-bit big-endian length of the head, the head as JSON, stdin. */
export function encodeExec(head: ExecHead, stdin: Uint8Array = new Uint8Array()): Uint8Array {
  const json = Buffer.from(JSON.stringify(head));
  const length = Buffer.alloc(HEAD_BYTES);
  length.writeUInt32BE(json.byteLength);
  return Buffer.concat([length, json, stdin]);
}

/** Throws if {@link encodeExec} did not make `body`. The head is not validated further. */
export function decodeExec(body: Buffer): { head: unknown; stdin: Buffer } {
  const end = HEAD_BYTES + (body.length < HEAD_BYTES ? 0 : body.readUInt32BE());
  if (body.length < end) throw new Error('the body of /exec is shorter than it says');
  return { head: JSON.parse(body.toString('utf8', HEAD_BYTES, end)), stdin: body.subarray(end) };
}

/** Encodes a frame of type `o` (stdout), `e` (stderr) or `x` (the exit as JSON). */
export function encodeEvent(event: ExecEvent): Uint8Array {
  if (event.type === 'exit') return encodeFrame('x', Buffer.from(JSON.stringify(event.exit)));
  return encodeFrame(event.type === 'stdout' ? 'o' : 'e', event.data);
}

/** A frame of type `h`, which {@link decodeEvents} skips. */
export const HEARTBEAT: Uint8Array = encodeFrame('h', new Uint8Array());

/** Ends with the exit event, or without one if `body` is aborted. */
export async function* decodeEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<ExecEvent> {
  for await (const { type, data } of decodeFrames(body)) {
    if (type === 'o' || type === 'e') yield { type: TYPES[type], data };
    if (type === 'x') return void (yield { type: 'exit', exit: JSON.parse(data.toString()) as ExecExit });
  }
}
