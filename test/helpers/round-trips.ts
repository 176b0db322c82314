import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import type { Llm } from '#core/ports/llm.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { OperationCounter } from './counting-table.ts';
import { addUser } from './users.ts';

export interface RoundTrips {
  /** Items read or written, including work after the answer. */
  readonly items: number;
  /** Length of the chain of dependent operations before the model is asked. */
  readonly stagesBeforeLlm: number;
  /** Operations such as `main.get`, in order of completion. */
  readonly operations: readonly string[];
}

/** Calls a prompt agent by its exact version, on a fresh platform whose Anthropic says anything, and counts. */
export async function countPromptCall(deps: AllDeps): Promise<RoundTrips> {
  const { key, slug, workspaceId } = await addUser(deps, 'counted');
  const background: Promise<void>[] = [];
  const counter = new OperationCounter();
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
    main: counter.count(deps.main, 'main'),
    runs: counter.count(deps.runs, 'runs'),
    counters: counter.count(deps.counters, 'counters'),
    background(work) {
      background.push(work);
      return work;
    },
  };
  const send = async (target: AllDeps, method: string, path: string, json: object): Promise<void> => {
    const app = createWebApp(target, routes, allHandlers(target));
    const request = new Request(`http://127.0.0.1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(json),
    });
    const response = await app(request);
    if (!response.ok) throw new Error(await response.text());
    await response.text();
  };

  await send(deps, 'PUT', `/workspaces/${workspaceId}/secrets`, { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' });
  await send(deps, 'POST', '/agents', {
    name: 'greeter',
    type: 'prompt',
    description: 'Greets',
    prompt: 'Greet {{name}}.',
    supported_providers: ['anthropic'],
    input_schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
  });
  // The first call of a process looks the slug up and caches it.
  await send(counted, 'POST', `/${slug}/greeter/v1/run`, { name: 'Ada' });
  await Promise.all(background);
  const before = { items: counter.items, stages: counter.stages, operations: counter.operations.length };

  await send(counted, 'POST', `/${slug}/greeter/v1/run`, { name: 'Ada' });
  await Promise.all(background);
  return {
    items: counter.items - before.items,
    stagesBeforeLlm: stagesAtLlm - before.stages,
    operations: counter.operations.slice(before.operations).map(({ table, method }) => `${table}.${method}`),
  };
}
