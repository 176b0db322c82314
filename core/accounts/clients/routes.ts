import * as z from 'zod';
import { defineRoutes, raw } from '#core/http/route.ts';

const SCOPES = ['read', 'run', 'manage'] as const;
const HTML = 'text/html';

const resourceMetadata = {
  method: 'GET',
  fn: 'keys',
  auth: 'public',
  response: {
    200: z.object({
      resource: z.url(),
      authorization_servers: z.array(z.url()),
      scopes_supported: z.array(z.enum(SCOPES)),
      bearer_methods_supported: z.array(z.string()),
      resource_name: z.string(),
    }),
  },
} as const;

/** Forms of OAuth. Errors have its form, too (RFC 6749, section 5.2): the handler writes them itself. */
const form = {
  method: 'POST',
  fn: 'keys',
  auth: 'sign-in',
  request: { body: raw('application/x-www-form-urlencoded') },
  alsoRaw: [],
  errors: ['INVALID_INPUT'],
} as const;

const workspace = z.object({ id: z.uuid(), slug: z.string(), name: z.string() });
const client = {
  client_id: z.string().describe('Address of the metadata document of the client.'),
  client_name: z.string().describe('What the client calls itself: unverified.'),
  resource: z.string().describe('The only address that the client gets access to.'),
};

/** See `docs/interface/client-sign-in.md`. */
export const clientRoutes = defineRoutes([
  {
    ...resourceMetadata,
    operationId: 'getResourceMetadata',
    path: '/.well-known/oauth-protected-resource',
    summary: 'Show where clients of `/mcp` sign in (RFC 9728)',
  },
  {
    ...resourceMetadata,
    operationId: 'getShortResourceMetadata',
    path: '/.well-known/oauth-protected-resource/{first}',
    summary: 'Show where clients of a resource with one segment sign in',
    errors: ['NOT_FOUND'],
  },
  {
    ...resourceMetadata,
    operationId: 'getLongResourceMetadata',
    path: '/.well-known/oauth-protected-resource/{first}/{second}/{third}',
    summary: 'Show where clients of a resource with three segments sign in',
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'getAuthorizationServer',
    method: 'GET',
    path: '/.well-known/oauth-authorization-server',
    summary: 'Show how clients sign in (RFC 8414)',
    fn: 'keys',
    auth: 'public',
    response: {
      200: z.object({
        issuer: z.url(),
        authorization_endpoint: z.url(),
        token_endpoint: z.url(),
        revocation_endpoint: z.url(),
        scopes_supported: z.array(z.enum(SCOPES)),
        response_types_supported: z.array(z.string()),
        response_modes_supported: z.array(z.string()),
        grant_types_supported: z.array(z.string()),
        token_endpoint_auth_methods_supported: z.array(z.string()),
        revocation_endpoint_auth_methods_supported: z.array(z.string()),
        code_challenge_methods_supported: z.array(z.string()),
        authorization_response_iss_parameter_supported: z.boolean(),
        client_id_metadata_document_supported: z.boolean(),
      }),
    },
  },
  {
    operationId: 'authorizeClient',
    method: 'GET',
    path: '/oauth/authorize',
    summary: 'Send a browser to the page on which a user lets a client in',
    fn: 'keys',
    auth: 'sign-in',
    response: { 200: raw(HTML), 303: raw(HTML) },
    alsoRaw: [HTML],
    errors: ['INVALID_INPUT', 'UNPROCESSABLE'],
  },
  {
    ...form,
    operationId: 'getClientToken',
    path: '/oauth/token',
    summary: 'Exchange a code or a refresh token for an access token',
    response: {
      200: z.object({
        access_token: z.string(),
        token_type: z.literal('Bearer'),
        expires_in: z.int().describe('Seconds.'),
        refresh_token: z.string().describe('Works once; the answer to it has the next one.'),
        scope: z.enum(SCOPES),
      }),
    },
  },
  {
    ...form,
    operationId: 'revokeClientToken',
    path: '/oauth/revoke',
    summary: 'End the connection that a token belongs to (RFC 7009)',
    response: { 200: z.object({}) },
  },
  {
    operationId: 'getClientRequest',
    method: 'GET',
    path: '/oauth/requests/{request}',
    summary: 'Show what a client asks for',
    fn: 'keys',
    auth: 'key',
    response: {
      200: z.object({
        ...client,
        client_host: z.string().describe('Host of the metadata document, which the platform has read there.'),
        redirect_host: z.string().describe('Where the browser goes after the answer.'),
        is_local: z.boolean().describe('Whether that is a program on the machine of the browser.'),
        scope: z.enum(SCOPES).describe('The scope that the client asks for.'),
        scopes: z.array(z.enum(SCOPES)).describe('The scopes that you may give, at most what it asks for.'),
        workspaces: z.array(workspace).describe('The workspaces that you may choose from.'),
        expires_at: z.iso.datetime(),
      }),
    },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'answerClientRequest',
    audit: { request: ['answer', 'workspace_id', 'scope'] },
    method: 'POST',
    path: '/oauth/requests/{request}',
    summary: 'Let a client in, or refuse it',
    fn: 'keys',
    auth: 'key',
    request: {
      body: z.strictObject({
        answer: z.enum(['allow', 'deny']),
        workspace_id: z.uuid().optional().describe('The only workspace that the client acts in. Required to allow it.'),
        scope: z
          .enum(SCOPES)
          .optional()
          .describe('What the client may do there, at most what it asked for. Required to allow it.'),
      }),
    },
    response: { 200: z.object({ redirect_to: z.string().describe('Address of the client to open in the browser.') }) },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'listConnectedClients',
    method: 'GET',
    path: '/connected-clients',
    summary: 'List the clients that you let in',
    fn: 'keys',
    auth: 'key',
    response: {
      200: z.object({
        clients: z.array(
          z.object({
            id: z.uuid(),
            ...client,
            workspace_id: z.uuid(),
            scope: z.enum(SCOPES),
            created_at: z.iso.datetime(),
            last_used_at: z.iso.datetime().nullable().describe('To within ten minutes. null: never.'),
          }),
        ),
      }),
    },
  },
  {
    operationId: 'deleteConnectedClient',
    method: 'DELETE',
    path: '/connected-clients/{id}',
    summary: 'Disconnect a client: its tokens are refused at once',
    fn: 'keys',
    auth: 'key',
    response: { 200: z.object({ deleted: z.literal(true), id: z.string() }) },
    errors: ['NOT_FOUND'],
  },
]);
