import { createHash } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkAccess, describeSite } from './browser.ts';

const VERIFIER = 'an-obviously-made-up-verifier-of-a-test-with-43-letters';
const CHALLENGE = createHash('sha256').update(VERIFIER).digest('base64url');
const NAME = '<img src=x onerror=alert(1)>';

let server: Server;
let client: string;

beforeAll(async () => {
  server = createServer(({ url }, answer) => {
    const body = { client_id: `${client}/client.json`, client_name: NAME, redirect_uris: ['exampleapp://callback'] };
    answer.setHeader('content-type', 'application/json').end(url === '/client.json' ? JSON.stringify(body) : '{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  client = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());

describeSite(
  'clients that sign in',
  (site) => {
    const asked = async (): Promise<string> => {
      const query = new URLSearchParams({
        client_id: `${client}/client.json`,
        redirect_uri: 'exampleapp://callback',
        response_type: 'code',
        code_challenge: CHALLENGE,
        code_challenge_method: 'S256',
        resource: `${site.target.url}/mcp`,
      });
      const answer = await fetch(`${site.target.url}/oauth/authorize?${query}`, { redirect: 'manual' });
      const location = answer.headers.get('location')!;
      expect([answer.status, location]).toEqual([303, expect.stringMatching(/^\/dashboard\/authorize\?request=/)]);
      return location.slice('/dashboard'.length);
    };

    test('a client is let in, is listed with its own name as text, and is disconnected', async () => {
      const page = await site.open(await asked());
      await page.getByRole('heading', { name: `Connect a client from ${new URL(client).host}?` }).waitFor();
      await page.getByText(NAME).waitFor();
      await checkAccess(page, () => page.getByRole('button', { name: 'Allow' }).waitFor());
      const answered = page.waitForResponse((answer) => answer.request().method() === 'POST');
      await page.getByRole('button', { name: 'Allow' }).click();
      const { redirect_to } = await (await answered).json();
      const { searchParams } = new URL(redirect_to);
      expect(searchParams.get('iss')).toBe(site.target.url);
      const body = new URLSearchParams({
        grant_type: 'authorization_code',
        code: searchParams.get('code')!,
        client_id: `${client}/client.json`,
        redirect_uri: 'exampleapp://callback',
        code_verifier: VERIFIER,
      });
      const tokens = await fetch(`${site.target.url}/oauth/token`, { method: 'POST', body });
      expect(tokens.status).toBe(200);
      await page.goto(site.at('/acme/settings/clients'));
      await page.getByRole('cell', { name: NAME, exact: true }).waitFor();
      await checkAccess(page, () => page.getByRole('cell', { name: NAME, exact: true }).waitFor());
      await page.getByRole('button', { name: `Disconnect ${NAME}` }).click();
      await page.getByRole('button', { name: 'Disconnect client' }).click();
      await page.getByRole('cell', { name: NAME, exact: true }).waitFor({ state: 'detached' });
      const { refresh_token } = (await tokens.json()) as { refresh_token: string };
      const again = new URLSearchParams({
        grant_type: 'refresh_token',
        refresh_token,
        client_id: `${client}/client.json`,
      });
      expect((await fetch(`${site.target.url}/oauth/token`, { method: 'POST', body: again })).status).toBe(400);
    });

    test('who is not signed in signs in first, and may refuse; the page cannot be framed', async () => {
      const path = await asked();
      const page = await site.open(path, { signedIn: false });
      await page.getByLabel('API key').fill(site.target.key);
      await page.getByRole('button', { name: 'Sign in' }).click();
      const answered = page.waitForResponse(
        (answer) => answer.request().url().includes('/oauth/requests/') && answer.request().method() === 'POST',
      );
      await page.getByRole('button', { name: 'Deny' }).click();
      expect((await (await answered).json()).redirect_to).toContain('error=access_denied');
      await page.goto(site.at(path));
      await page.getByText('already answered or has expired').waitFor();
      const { headers } = await fetch(site.at(path));
      expect(headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
    });
  },
  { PLATFORM_OUTBOUND_HOSTS: '127.0.0.1' },
);
