import { expect, onTestFinished, test } from 'vitest';
import { createClient } from '#core/api/client.ts';
import { publishCode, request, startLocalTarget } from '#test/helpers/platform.ts';

/** Calls a dependency with `bash` alone, so that no interpreter is needed. */
const CALLER = `exec 3<>"/dev/tcp/$HOST/$PORT"
printf 'POST /acme/leaf/v1/run HTTP/1.1\\r\\nHost: x\\r\\nAuthorization: Bearer %s\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n' "$PLATFORM_SERVICE_KEY" >&3
grep -o '{"data.*}}' <&3
`;

test.for([
  ['where clients come from elsewhere', { PLATFORM_BASE_URL: 'https://platform.example.test' }],
  ['where runs reach nothing', { PLATFORM_SANDBOX_EGRESS: 'none' }],
  ['where runs reach a list of hosts', { PLATFORM_SANDBOX_EGRESS: 'example.org' }],
] as const)('an agent reaches its dependencies %s', async ([, settings], { skip }) => {
  const target = await startLocalTarget({ PLATFORM_SANDBOX_PRESTART: '0', ...settings });
  onTestFinished(() => target.close());
  const { kind } = await target.deps.sandbox.status();
  if (kind === 'none') skip('this machine has no sandbox');
  const { gatewayUrl: url } = target.deps;
  const client = createClient({ baseUrl: url, key: target.key });
  const { hostname, port } = new URL(url);
  await publishCode(client, 'leaf', { 'main.sh': `echo '{"leaf": true}'` }, { runtime: { command: 'bash main.sh' } });
  await publishCode(
    client,
    'caller',
    { 'main.sh': CALLER.replace('$HOST', hostname).replace('$PORT', port) },
    {
      runtime: { command: 'bash main.sh' },
      manifest: {
        manifest_version: 1,
        max_hops: 1,
        timeout_ms: 20_000,
        dependencies: [{ id: 'acme/leaf', version: 'v1' }],
      },
    },
  );
  const { body } = await request({ url }, 'POST', '/acme/caller/v1/run', { key: target.key, json: {} });
  expect(body).toMatchObject({ data: { data: { leaf: true } } });
});
