import type { Json } from '#core/base/json.ts';
import type { CustomTool } from '#core/manifest/definition.ts';
import type { Deps } from '#core/ports/deps.ts';
import { execToEnd } from '#core/ports/sandbox.ts';
import type { EngineRun } from '../engine.ts';
import { warmRunOf } from '../program/warm-run.ts';
import { openRunSandbox } from '../run-sandbox.ts';
import { COMMAND_SECONDS, commandOutcome, type ToolOutcome } from './tool-outcome.ts';
import { type ToolSandboxDeps, toolEnvironment } from './tool-sandbox.ts';

/**
 * Calls a tool whose program stays for calls of other runs, too: it has a sandbox of its own, and gets the parameters as an
 * input. Throws what {@link openRunSandbox} and {@link commandOutcome} throw.
 */
export async function callWarmTool(
  deps: ToolSandboxDeps & Pick<Deps, 'ids'>,
  run: EngineRun,
  {
    tool,
    parameters,
    callId,
    signal,
  }: {
    readonly tool: CustomTool;
    readonly parameters: Readonly<Record<string, Json>>;
    readonly callId: string | undefined;
    readonly signal: AbortSignal;
  },
): Promise<ToolOutcome> {
  const warm = await warmRunOf(run, tool.reuse!, toolEnvironment(run));
  const ofTool: EngineRun = {
    ...run,
    // Files of the run are in its own sandbox.
    ...{ files: [], input: { ...run.input, uploads: [] } },
    kind: run.kind && (async () => [tool.name, await run.kind?.()]),
  };
  const session = await openRunSandbox(deps, ofTool, warm.env, { isOneCommand: true, reuse: warm.reuse });
  try {
    const given = warm.inputOf(deps.ids, parameters, callId === undefined ? {} : { PLATFORM_TOOL_CALL_ID: callId });
    const request = { command: tool.command, ...given, timeoutMs: COMMAND_SECONDS * 1000, signal };
    const outcome = await execToEnd(session, request);
    return commandOutcome({ ...outcome, stdout: asText(outcome.stdout) });
  } finally {
    await session.close();
  }
}

/** A text as an answer is shown as it is, and not as JSON. */
function asText(stdout: Uint8Array): Uint8Array {
  if (stdout[0] !== 0x22) return stdout;
  return Buffer.from(JSON.parse(Buffer.from(stdout).toString()) as string);
}
