import { type Sandbox, type SandboxSession, type SandboxStatus, SandboxUnavailableError } from '#core/ports/sandbox.ts';

const PROBLEM =
  'This deployment runs no programs: its stage file says so. Set `sandbox` there (docs/sandbox.md), and deploy again.';

/** Where the stage wants no sandboxes: says why no program can run. */
export class NoSandbox implements Sandbox {
  async open(): Promise<SandboxSession> {
    throw new SandboxUnavailableError(PROBLEM);
  }

  async status(): Promise<SandboxStatus> {
    return { kind: 'none', problem: PROBLEM, interpreters: {} };
  }

  async close(): Promise<void> {}
}
