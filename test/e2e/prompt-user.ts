import { clientOf, request, type Target } from '#test/helpers/platform.ts';

/** Adds a user who publishes and calls prompts of one provider. A prompt names its user and itself to the scripted model. */
export async function promptUser(target: Target, slug: string, provider: string) {
  const user = await target.addUser(slug);
  const client = clientOf(target, user.key);
  const params = { workspace_id: user.workspaceId };
  const publish = (name: string, more: Record<string, unknown> = {}) =>
    client.createAgent({
      body: {
        type: 'prompt',
        description: 'x',
        name,
        prompt: `Say ${slug}-${name}.`,
        supported_providers: [provider],
        ...more,
      },
    });
  const call = (path: string, json: unknown = {}) => request(target, 'POST', path, { key: user.key, json });
  const runOf = async (answer: Awaited<ReturnType<typeof call>>) =>
    client.getRun({ params: { ...params, run_id: answer.headers.get('x-run-id')! } });
  return { user, client, params, publish, call, runOf };
}
