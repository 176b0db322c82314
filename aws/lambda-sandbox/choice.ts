import type { Json } from '#core/base/json.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Sandbox, SandboxPlace, SandboxSession, SandboxSpec, SandboxStatus } from '#core/ports/sandbox.ts';
import { createLambdaSandbox, type LambdaSandboxDeps } from './sandbox.ts';

/** Lambda ends a function after 15 minutes; starting and ending a session take some of them. */
export const MAX_PROGRAM_MS = 14 * 60_000;
/** What the runner and the watcher take of the function's memory. */
export const RUNNER_MB = 128;

/** Stages with Lambda functions for short programs have Fargate or MicroVMs for everything else. */
export const createChosenSandbox = (
  deps: LambdaSandboxDeps,
  { others, memoryMb }: { readonly others: Sandbox; readonly memoryMb: number },
): ChosenSandbox => new ChosenSandbox({ lambda: createLambdaSandbox(deps), others, memoryMb, clock: deps.clock });

/**
 * The one rule of what serves a session. Returns why Lambda cannot, or `undefined` if it can: a function runs one command
 * for at most 15 minutes, in the environment of sessions of the same kind, with the memory that it has.
 */
export function whyNotLambda(spec: SandboxSpec, now: number, memoryMb: number): string | undefined {
  if (spec.purpose !== 'run') return 'an installation writes a layer that is read afterwards';
  if (!spec.isOneCommand) return 'a session of several commands keeps its state between them';
  if (spec.owner === undefined || spec.kind === undefined) return 'nothing tells which runs are of the same kind';
  if (spec.deadline === undefined || spec.deadline - now > MAX_PROGRAM_MS) {
    return `it may take longer than ${MAX_PROGRAM_MS / 60_000} minutes`;
  }
  if (spec.limits.memoryBytes > (memoryMb - RUNNER_MB) * 1024 * 1024) {
    return 'its memory limit exceeds what the function has for programs';
  }
  if (spec.egressTargets !== undefined && spec.egressTargets.privateRanges.length > 0) {
    return 'the function is in no network, so that private addresses are out of its reach';
  }
  return undefined;
}

interface ChosenSandboxOptions {
  readonly lambda: Sandbox;
  readonly others: Sandbox;
  readonly memoryMb: number;
  readonly clock: Clock;
}

/** {@link Sandbox} that opens each session where {@link whyNotLambda} says. */
export class ChosenSandbox implements Sandbox {
  readonly #options: ChosenSandboxOptions;

  constructor(options: ChosenSandboxOptions) {
    this.#options = options;
  }

  async open(spec: SandboxSpec): Promise<SandboxSession> {
    const { lambda, others, memoryMb, clock } = this.#options;
    const why = whyNotLambda(spec, clock.now(), memoryMb);
    if (why === undefined) {
      return placed(await lambda.open(spec), { kind: 'lambda', why: 'one short command' });
    }
    const session = await others.open(spec);
    return placed(session, { kind: (await others.status()).kind, why });
  }

  /** Only sessions of the other kind outlive a process. */
  async attach(ref: Json): Promise<SandboxSession> {
    const { others } = this.#options;
    if (others.attach === undefined) throw new Error('this host has no sandboxes that outlive a process');
    return others.attach(ref);
  }

  async status(): Promise<SandboxStatus> {
    return this.#options.others.status();
  }

  async close(): Promise<void> {
    const { lambda, others } = this.#options;
    await Promise.all([lambda.close(), others.close()]);
  }
}

function placed(session: SandboxSession, place: SandboxPlace): SandboxSession {
  return Object.defineProperty(session, 'place', { value: place, enumerable: true });
}
