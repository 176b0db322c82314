import { type Sandbox, type SandboxStatus, SandboxUnavailableError } from './sandbox.ts';

/** {@link Sandbox} of a host that runs no programs: `open` throws the problem, and `status` reports it. */
export class NoSandbox implements Sandbox {
  readonly #status: SandboxStatus & { readonly problem: string };

  /** @param problem the cause and the fix, in words for users */
  constructor(problem: string, interpreters: SandboxStatus['interpreters'] = {}) {
    this.#status = { kind: 'none', problem, interpreters };
  }

  async open(): Promise<never> {
    throw new SandboxUnavailableError(this.#status.problem);
  }

  async status(): Promise<SandboxStatus> {
    return this.#status;
  }

  async close(): Promise<void> {}
}
