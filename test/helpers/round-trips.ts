import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import type { Llm } from '#core/ports/llm.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { OperationCounter } from './counting-table.ts';
import { UnitCounter } from './unit-counter.ts';
import { addUser } from './users.ts';

export interface RoundTrips {
  /** Items read or written, including work after the answer. */
  readonly items: number;
  /** Length of the chain of dependent operations before the model call. */
  readonly stagesBeforeLlm: number;
  /** Operations such as `main.get`, in order of completion. */
  readonly operations: readonly string[];
  /** DynamoDB capacity units, as `unit-counter.ts` counts them. */
  readonly readUnits: number;
  readonly writeUnits: number;
}

/**
 * Creates a workspace with a prompt agent. Returns a function that calls the agent by its exact version on `target`,
 * and waits until the work after the answer is done.
 */
export async function newPromptCaller(
  deps: AllDeps,
  target = deps,
  { externalId, evals }: { readonly externalId?: string | undefined; readonly evals?: object | undefined } = {},
): Promise<() => Promise<void>> {
  const { key, slug, workspaceId } = await addUser(deps, 'counted');
  const senderOn = (bare: AllDeps) => {
    const background: Promise<void>[] = [];
    const used: AllDeps = {
      ...bare,
      background(work) {
        background.push(work);
        return work;
      },
    };
    const app = createWebApp(used, routes, allHandlers(used));
    return async (method: string, path: string, json: object, more: Record<string, string> = {}): Promise<string> => {
      const request = new Request(`http://127.0.0.1${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...more },
        body: JSON.stringify(json),
      });
      const response = await app(request);
      if (!response.ok) throw new Error(await response.text());
      const text = await response.text();
      await Promise.all(background.splice(0));
      return text;
    };
  };
  const prepare = senderOn(deps);
  await prepare('PUT', `/workspaces/${workspaceId}/secrets`, { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' });
  await prepare('POST', '/agents', {
    name: 'greeter',
    type: 'prompt',
    description: 'Greets',
    prompt: 'Greet {{name}}.',
    supported_providers: ['anthropic'],
    input_schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
    ...(evals && { evals }),
  });
  const send = senderOn(target);
  const headers: Record<string, string> = {};
  if (externalId !== undefined) {
    const body = { agent: `${slug}/greeter`, external_id: externalId };
    headers['x-platform-session'] = JSON.parse(await prepare('POST', `/workspaces/${workspaceId}/sessions`, body)).id;
  }
  return async () => void (await send('POST', `/${slug}/greeter/v1/run`, { name: 'Ada' }, headers));
}

/** Calls a prompt agent on a fresh platform with a scripted Anthropic, and counts operations. */
export async function countPromptCall(
  deps: AllDeps,
  { inSession = false, evals }: { readonly inSession?: boolean; readonly evals?: object } = {},
): Promise<RoundTrips> {
  const counter = new OperationCounter();
  const units = new UnitCounter();
  let stagesAtLlm = Number.NaN;
  const llm: Llm = {
    generate(request) {
      stagesAtLlm = counter.stages;
      return deps.llm.generate(request);
    },
  };
  const counted: AllDeps = {
    ...deps,
    llm,
    main: counter.count(units.count(deps.main, 'main'), 'main'),
    runs: counter.count(units.count(deps.runs, 'runs'), 'runs'),
    counters: counter.count(units.count(deps.counters, 'counters'), 'counters'),
  };
  const call = await newPromptCaller(deps, counted, { externalId: inSession ? 'a-conversation' : undefined, evals });
  // The first call of a process looks the slug up and caches it.
  await call();
  const before = { items: counter.items, stages: counter.stages, operations: counter.operations.length };
  const { readUnits, writeUnits } = units;

  await call();
  return {
    items: counter.items - before.items,
    stagesBeforeLlm: stagesAtLlm - before.stages,
    operations: counter.operations.slice(before.operations).map(({ table, method }) => `${table}.${method}`),
    readUnits: units.readUnits - readUnits,
    writeUnits: units.writeUnits - writeUnits,
  };
}
