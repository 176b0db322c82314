import * as z from 'zod';
import { KEY_SCOPES } from '#core/base/caller.ts';
import { printableLine } from '#core/http/printable-line.ts';
import { defineRoutes, raw } from '#core/http/route.ts';

const session = z.object({
  id: z.uuid(),
  key_id: z.uuid().describe('The API key that it was made with. It ends with the key.'),
  created_at: z.iso.datetime(),
  last_seen_at: z.iso.datetime().describe('When the session was last used, to within ten minutes.'),
  expires_at: z.iso.datetime().describe('When the session ends. It ends before that after 12 hours without use.'),
  user_agent: z.string().nullable().describe('The `User-Agent` header of the browser. null: it sent none.'),
});

const who = z.object({
  session: session.nullable().describe('null: the request was sent with an API key.'),
  user: z.object({ id: z.string(), email: z.string(), display_name: z.string() }),
  workspace: z.object({ id: z.uuid(), slug: z.string(), name: z.string() }),
  scope: z.enum(KEY_SCOPES),
});

const HTML = 'text/html';
const page = { fn: 'keys', response: { 200: raw(HTML) }, alsoRaw: [HTML] } as const;
const form = { body: raw('application/x-www-form-urlencoded') } as const;

const provider = z.object({
  name: z.string().describe('Host name of the OpenID provider.'),
  path: z.string().describe('Where browsers begin, `GET /auth/oidc/start` as they see it.'),
});

/** See `docs/interface/sign-in.md`. */
export const signInRoutes = defineRoutes([
  {
    operationId: 'createSession',
    method: 'POST',
    path: '/auth/session',
    summary: 'Sign a browser in with an API key or a one-time code; the answer sets a cookie',
    fn: 'keys',
    auth: 'sign-in',
    request: {
      body: z.union([
        z.strictObject({ api_key: z.string().max(200) }).meta({ title: 'ByApiKey' }),
        z.strictObject({ code: z.string().max(200) }).meta({ title: 'ByCode' }),
      ]),
    },
    response: {
      201: z.object({
        session,
        show: z
          .string()
          .nullable()
          .describe('Path below the dashboard that the code was made for. null: none, or the sign-in was by key.'),
      }),
    },
    errors: ['UNAUTHORIZED', 'FORBIDDEN'],
  },
  {
    operationId: 'getSession',
    method: 'GET',
    path: '/auth/session',
    summary: 'Show the signed-in user and the expiry of the session',
    fn: 'keys',
    auth: 'key',
    response: { 200: who },
  },
  {
    operationId: 'deleteSession',
    method: 'DELETE',
    path: '/auth/session',
    summary: 'Sign the browser out',
    fn: 'keys',
    auth: 'key',
    changes: 'own sign-in',
    response: { 200: z.object({ deleted: z.boolean().describe('false: the request was sent with an API key.') }) },
  },
  {
    operationId: 'createSignInCode',
    method: 'POST',
    path: '/auth/codes',
    summary: 'Create a link that signs a browser in once, within a minute',
    fn: 'keys',
    auth: 'key',
    changes: 'own sign-in',
    request: {
      body: z.object({
        show: z
          .enum(['agent', 'run', 'schedule'])
          .optional()
          .describe('The kind of page that the browser opens after it has signed in.'),
        id: z.string().min(1).max(200).optional().describe('Id of the agent, run or schedule that the page shows.'),
      }),
    },
    response: {
      201: z.object({
        code: z.string(),
        url: z.url().describe('Address to open in the browser. It contains the code.'),
        expires_at: z.iso.datetime(),
      }),
    },
  },
  {
    operationId: 'listKeySessions',
    method: 'GET',
    path: '/api-keys/{id}/sessions',
    summary: 'List the browsers that are signed in with an API key',
    fn: 'keys',
    auth: 'key',
    response: { 200: z.object({ sessions: z.array(session) }) },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'deleteKeySession',
    method: 'DELETE',
    path: '/api-keys/{id}/sessions/{session_id}',
    summary: 'Sign a browser out',
    fn: 'keys',
    auth: 'key',
    response: { 200: z.object({ deleted: z.literal(true), id: z.string() }) },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'cliInit',
    method: 'POST',
    path: '/auth/cli-init',
    summary: 'Begin the sign-in of a command line; the user approves it on the page in the answer',
    fn: 'keys',
    auth: 'public',
    request: {
      body: z.object({
        redirect_port: z
          .int()
          .min(1)
          .max(65_535)
          .optional()
          .describe(
            'Where the command line waits: the page leads to `http://127.0.0.1:<port>/callback`. Default: it shows the token.',
          ),
        code_challenge: z
          .string()
          .regex(/^[\w-]{43}$/)
          .optional()
          .describe('SHA-256 of a random verifier in base64url (RFC 7636); the exchange then needs the verifier.'),
        client_name: printableLine(80).optional().describe('Program and machine, for the person.'),
        workspace: z
          .string()
          .min(1)
          .max(64)
          .optional()
          .describe('Slug or id of the only workspace that the key is to be good for.'),
      }),
    },
    response: { 200: z.object({ state: z.string(), auth_url: z.url(), expires_at: z.iso.datetime() }) },
  },
  {
    operationId: 'cliExchange',
    method: 'POST',
    path: '/auth/cli-exchange',
    summary: 'Exchange an approved sign-in for its API key',
    fn: 'keys',
    auth: 'sign-in',
    request: { body: z.object({ token: z.string().max(200), code_verifier: z.string().max(200).optional() }) },
    response: {
      200: z.object({
        org_id: z.uuid(),
        org_slug: z.string(),
        org_name: z.string(),
        api_key: z.string().describe('The key itself. Only this answer shows it.'),
        api_key_prefix: z.string(),
      }),
    },
    errors: ['UNAUTHORIZED'],
  },
  {
    operationId: 'cliLogout',
    method: 'POST',
    path: '/auth/cli-logout',
    summary: 'Revoke the API key of the request, if a command line got it by signing in',
    fn: 'keys',
    auth: 'key',
    changes: 'own sign-in',
    response: { 200: z.object({ revoked: z.boolean() }) },
  },
  {
    ...page,
    operationId: 'showSignIn',
    method: 'GET',
    path: '/auth/login',
    summary: 'The page that signs a browser in',
    auth: 'public',
    errors: ['FORBIDDEN'],
  },
  {
    ...page,
    operationId: 'signIn',
    method: 'POST',
    path: '/auth/login',
    summary: 'What that page sends',
    auth: 'sign-in',
    request: form,
    response: { 303: raw(HTML) },
    errors: ['UNAUTHORIZED', 'FORBIDDEN'],
  },
  {
    operationId: 'getSignInScript',
    method: 'GET',
    path: '/auth/login.js',
    summary: 'The script of the sign-in page',
    fn: 'keys',
    auth: 'public',
    response: { 200: raw('text/javascript') },
  },
  {
    ...page,
    operationId: 'showCliSignIn',
    method: 'GET',
    path: '/auth/cli',
    summary: 'The page on which a user approves the sign-in of a command line',
    auth: 'public',
    request: { query: z.object({ state: z.string().max(200) }) },
    errors: ['NOT_FOUND', 'FORBIDDEN'],
  },
  {
    ...page,
    operationId: 'answerCliSignIn',
    method: 'POST',
    path: '/auth/cli',
    summary: 'What that page sends',
    auth: 'sign-in',
    request: form,
    errors: ['UNAUTHORIZED', 'NOT_FOUND', 'FORBIDDEN'],
  },
  {
    operationId: 'getSignInOptions',
    method: 'GET',
    path: '/auth/options',
    summary: 'Show whether users can sign in with an OpenID provider',
    fn: 'keys',
    auth: 'public',
    response: { 200: z.object({ oidc: provider.nullable().describe('null: the operator has set up none.') }) },
  },
  {
    ...page,
    operationId: 'startOidc',
    method: 'GET',
    path: '/auth/oidc/start',
    summary: 'Send a browser to the OpenID provider of the platform',
    auth: 'public',
    request: {
      query: z.object({
        to: z.string().max(2000).optional().describe('What to show afterwards, a path such as `/dashboard/main/runs`.'),
      }),
    },
    response: { 303: raw(HTML) },
    errors: ['FORBIDDEN', 'UNPROCESSABLE'],
  },
  {
    ...page,
    operationId: 'finishOidc',
    method: 'GET',
    path: '/auth/oidc/callback',
    summary: 'Callback of the OpenID provider',
    auth: 'sign-in',
    errors: ['UNAUTHORIZED', 'FORBIDDEN', 'UNPROCESSABLE'],
  },
]);
