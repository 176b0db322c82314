import * as z from 'zod';
import { defineRoutes, raw } from '#core/http/route.ts';

const name = z
  .string()
  .max(40, 'must be at most 40 characters')
  .regex(
    /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/,
    'must be lower-case letters, digits and single hyphens, beginning with a letter',
  );
const connection = z.object({
  name: z.string(),
  owner: z.enum(['workspace', 'user']),
  user_id: z.string().nullable(),
  secret: z.string(),
  url: z.string(),
  issuer: z.string(),
  scopes: z.array(z.string()),
  state: z.enum(['connected', 'needs_sign_in']),
  problem: z.string().nullable(),
  expires_at: z.iso.datetime().nullable(),
  connected_by: z.string(),
  connected_at: z.iso.datetime(),
  last_used_at: z.iso.datetime().nullable(),
});
const one = { 200: z.object({ connection }) };
const address = z.string().max(2048);
const query = z.object({ owner: z.string().max(64).default('workspace') });

const CONNECTIONS = '/workspaces/{workspace_id}/connections';
const CONNECTION = `${CONNECTIONS}/{connection}` as const;
const HTML = 'text/html';
const row = { fn: 'secrets', auth: 'key' } as const;

/** See `docs/interface/connections.md`. */
export const connectionRoutes = defineRoutes([
  {
    ...row,
    operationId: 'listConnections',
    method: 'GET',
    path: CONNECTIONS,
    summary: 'List the connections of the workspace and your own; their tokens are never shown',
    response: { 200: z.object({ connections: z.array(connection) }) },
  },
  {
    ...row,
    operationId: 'createConnection',
    audit: { request: ['name', 'url', 'owner'] },
    method: 'POST',
    path: CONNECTIONS,
    summary: 'Begin the sign-in of a connection at an MCP server or an HTTP API',
    request: {
      body: z.strictObject({
        name,
        url: address.optional(),
        owner: z.enum(['workspace', 'user']).default('workspace'),
        scopes: z
          .array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,200}$/, 'must be a scope'))
          .max(50)
          .optional(),
        client_id: z.string().min(1).max(1000).optional(),
        client_secret: z.string('must be a string').min(1).max(2000).optional(),
        endpoints: z.strictObject({ authorize: address, token: address, revoke: address.optional() }).optional(),
        redirect_port: z.int().min(1).max(65_535).optional(),
        dashboard: z.boolean().optional(),
      }),
    },
    response: { 201: z.object({ authorization_url: z.url(), expires_at: z.iso.datetime() }) },
    errors: ['CONFLICT', 'UNPROCESSABLE'],
  },
  {
    ...row,
    operationId: 'getConnection',
    method: 'GET',
    path: CONNECTION,
    summary: 'Show a connection',
    request: { query },
    response: one,
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'finishConnection',
    audit: { request: [] },
    method: 'POST',
    path: CONNECTION,
    summary: 'Finish the sign-in of a connection with the answer of its provider',
    request: { params: z.object({ connection: name }), body: z.strictObject({ answer: z.string().max(8000) }) },
    response: one,
    errors: ['UNPROCESSABLE'],
  },
  {
    ...row,
    operationId: 'deleteConnection',
    audit: { request: ['owner'] },
    method: 'DELETE',
    path: CONNECTION,
    summary: 'Delete a connection with its tokens, and revoke them at the provider',
    request: { query },
    response: { 200: z.object({ deleted: z.literal(true), revoked: z.boolean() }) },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'connectionCallback',
    method: 'GET',
    path: '/connections/callback',
    summary: 'Page to which providers redirect browsers after a sign-in for a connection',
    fn: 'secrets',
    auth: 'public',
    response: { 200: raw(HTML) },
    alsoRaw: [HTML],
    errors: ['INVALID_INPUT'],
  },
  {
    operationId: 'getConnectionClient',
    method: 'GET',
    path: '/connections/client.json',
    summary: 'Show the client metadata document with which providers know the platform',
    fn: 'secrets',
    auth: 'public',
    response: {
      200: z.object({
        client_id: z.string(),
        client_name: z.string(),
        client_uri: z.string(),
        redirect_uris: z.array(z.string()),
        grant_types: z.array(z.string()),
        response_types: z.array(z.string()),
        token_endpoint_auth_method: z.string(),
        application_type: z.string(),
      }),
    },
  },
]);
