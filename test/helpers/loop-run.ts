import type { EngineRun } from '#core/execution/engines/engine.ts';
import type { ProgressEvent } from '#core/execution/engines/progress.ts';
import { validateAgainst } from '#core/manifest/json-schema/schema-validation.ts';
import { fillCommand } from '#core/manifest/tool-commands/fill-command.ts';
import { placesIn } from '#core/manifest/tool-commands/tool-command.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Clock } from '#core/ports/clock.ts';
import { SecretMask } from '#core/runs/masking/masking.ts';
import { Trace } from '#core/runs/trace/trace.ts';

interface LoopRunOptions {
  readonly clock: Clock;
  readonly maxTurns: number;
  readonly change: Pick<EngineRun, 'models'> & Partial<EngineRun>;
}

/** Creates a loop run with the platform's own tools, and collects its progress events. */
export function loopRun({ clock, maxTurns, change }: LoopRunOptions): { run: EngineRun; events: ProgressEvent[] } {
  const events: ProgressEvent[] = [];
  const definition = {
    prompt: 'Do it.',
    output_schema: null,
    supported_providers: ['any'],
    custom_tools: [],
    manifest: null,
    loop: { max_turns: maxTurns },
  };
  const run: EngineRun = {
    runId: 'r',
    workspaceId: 'w',
    validate: async (schema, value) => validateAgainst(schema, value),
    fillCommand: async (command, values) => fillCommand(command, placesIn(command), values),
    agent: { definition } as unknown as AgentVersion,
    input: { document: { question: 'why?' }, uploads: [], isMultipart: false },
    skills: [],
    isStrict: false,
    files: [],
    env: {},
    mask: new SecretMask({}),
    deadline: clock.now() + 240_000,
    signal: new AbortController().signal,
    emit: (event) => events.push(event),
    isWatched: true,
    trace: new Trace(clock),
    ...change,
  };
  return { run, events };
}
