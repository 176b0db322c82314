import { type Sandbox, type SandboxSession, type SandboxStatus, SandboxUnavailableError } from '#core/ports/sandbox.ts';

const PROBLEM =
  'This deployment has no compute stack yet, which is what runs programs on AWS: run code_runtime agents on the local host (npm start).';

/** Stands where the sandbox on AWS will stand: says why no program can run here. */
export class NoSandbox implements Sandbox {
  async open(): Promise<SandboxSession> {
    throw new SandboxUnavailableError(PROBLEM);
  }

  async status(): Promise<SandboxStatus> {
    return { kind: 'none', problem: PROBLEM, interpreters: {} };
  }

  async close(): Promise<void> {}
}
