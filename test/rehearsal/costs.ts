import { streamCall } from '#test/helpers/events.ts';
import { clientOf, request } from '#test/helpers/platform.ts';
import type { Rehearsal } from './platform.ts';

/** What one request of a client makes AWS do, all that goes on after its answer included. */
export interface Counted {
  readonly what: string;
  /** Waits for a model, so many times one after the other. */
  readonly modelTurns: number;
  /** Requests that come to API Gateway: those of agents, too. */
  readonly gatewayRequests: number;
  readonly invocations: Rehearsal['lambda']['invocations'];
  readonly readUnits: number;
  readonly writeUnits: number;
  /** Requests to DynamoDB. */
  readonly tableRequests: number;
  readonly s3Gets: number;
  readonly s3Puts: number;
  /** Everything else, such as `secretsmanager:GetSecretValue`. */
  readonly others: readonly string[];
}

const MODEL_KEY = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-made-up' };

/** Until then V8 still compiles: the processor works several times as long as it does for all that come after. */
const WARM_UP = 10;

/** Makes each kind of request some times and counts the last: by then the function runs and knows what it keeps in memory. */
export async function countRequests(target: Rehearsal): Promise<Counted[]> {
  const { gate, lambda } = target;
  const { key, slug, workspaceId } = await target.addUser('costs');
  const client = clientOf(target, key);
  await client.putSecret({ params: { workspace_id: workspaceId }, body: MODEL_KEY });
  const { agent } = await client.createAgent({
    body: {
      name: 'greeter',
      type: 'prompt',
      description: 'Greets',
      prompt: 'Greet {{name}}.',
      supported_providers: ['anthropic'],
      input_schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
    },
  });
  const path = `/${slug}/greeter/v1/run`;
  const json = { name: 'Ada' };
  const send = async (method: string, to: string, options: Parameters<typeof request>[3] = {}) => {
    const answer = await request(target, method, to, { key, ...options });
    if (answer.status >= 400) throw new Error(`${method} ${to}: ${JSON.stringify(answer.body)}`);
    return answer;
  };

  const counted: Counted[] = [];
  const count = async (what: string, modelTurns: number, act: () => Promise<unknown>): Promise<void> => {
    for (let i = 0; i < WARM_UP; i++) await act();
    await lambda.settled();
    const [calls, runs] = [gate.calls.length, lambda.invocations.length];
    await act();
    await lambda.settled();
    const made = gate.calls.slice(calls).filter(({ principal }) => principal !== 'operator');
    const of = (service: string) => made.filter((call) => call.service === service);
    const s3 = of('s3').map(({ action }) => action);
    const isGet = (action: string) => action === 's3:GetObject';
    counted.push({
      what,
      modelTurns,
      gatewayRequests: 1,
      invocations: lambda.invocations.slice(runs),
      readUnits: of('dynamodb').reduce((sum, { readUnits }) => sum + readUnits, 0),
      writeUnits: of('dynamodb').reduce((sum, { writeUnits }) => sum + writeUnits, 0),
      tableRequests: of('dynamodb').length,
      s3Gets: s3.filter(isGet).length,
      s3Puts: s3.filter((action) => !isGet(action)).length,
      others: made.filter(({ service }) => service !== 'dynamodb' && service !== 's3').map(({ action }) => action),
    });
  };

  await count('prompt call', 1, () => send('POST', path, { json }));
  await count('prompt call, streamed', 1, async () => {
    const call = await streamCall(target, path, { key, json });
    await Array.fromAsync(call.records);
  });
  await count('prompt call, answered later', 1, () =>
    send('POST', path, { json, headers: { prefer: 'respond-async' } }),
  );
  let repeats = 0;
  await count('prompt call with an `Idempotency-Key`', 1, () =>
    send('POST', path, { json, headers: { 'idempotency-key': `costs-${repeats++}` } }),
  );
  const run = (await send('POST', path, { json })).headers.get('x-run-id');
  await count('`GET` of a run', 0, () => send('GET', `/workspaces/${workspaceId}/runs/${run}`));
  await count('`GET` of a page of runs', 0, () => send('GET', `/workspaces/${workspaceId}/runs?limit=20`));
  await count('`GET` of an agent', 0, () => send('GET', `/agents/${agent.id}`));
  await count('`GET` of the agents of a workspace', 0, () => send('GET', '/agents'));
  await count('`GET` of the public catalog', 0, () => send('GET', '/public/agents'));
  await count('`GET /usage`', 0, () => send('GET', '/usage'));
  await count('`GET /health`', 0, () => send('GET', '/health'));
  await count('publishing a prompt', 0, () =>
    send('POST', '/agents', { json: { name: 'other', type: 'prompt', description: 'Says', prompt: 'Say it.' } }),
  );
  return counted;
}
