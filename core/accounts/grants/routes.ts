import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';
import { egressTargetProblem } from '#core/outbound/egress-target.ts';
import { SCOPES } from './grant.ts';

const scope = z.enum(SCOPES);
const grant = z.object({
  agent: z.string().describe('`org/agent`.'),
  version: z.string().describe('`v1`, or `all`.'),
  secrets: z.array(z.string()),
  scopes: z.array(scope),
  egress: z.array(z.string()).describe('Databases and other servers that it may connect to, as `host:port`.'),
  granted_by: z.string().describe('Id of the user who last granted or changed it.'),
  granted_at: z.iso.datetime(),
  revision: z.string().describe('Another one after each change; the header ETag has it, too.'),
});
const one = z.object({ grant });

const GRANTS = '/workspaces/{workspace_id}/grants';
const GRANT = `${GRANTS}/{org}/{agent}` as const;
const headers = z.object({
  'if-match': z
    .string()
    .regex(/^(W\/)?"?[0-9a-f-]{36}"?$/, 'must be the revision of a grant')
    .transform((text) => /[0-9a-f-]{36}/.exec(text)![0])
    .optional()
    .describe('Only if the grant still has this revision.'),
});
const row = { fn: 'agents', auth: 'key', role: 'owner' } as const;

/** See `docs/interface/grants.md`. */
export const grantRoutes = defineRoutes([
  {
    ...row,
    operationId: 'listGrants',
    method: 'GET',
    path: GRANTS,
    summary: 'List the grants of the workspace',
    response: { 200: z.object({ grants: z.array(grant) }) },
  },
  {
    ...row,
    operationId: 'getGrant',
    method: 'GET',
    path: GRANT,
    summary: 'Show the grant of an agent',
    response: { 200: one },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'putGrant',
    audit: { request: ['version', 'secrets', 'scopes', 'egress'] },
    method: 'PUT',
    path: GRANT,
    summary: 'Grant an agent secrets, parts of the workspace and targets, replacing its present grant',
    request: {
      headers,
      body: z.strictObject({
        version: z
          .string()
          .regex(/^(v[1-9]\d{0,4}|all)$/, 'must be a version such as "v1", or "all" to include future versions')
          .describe('`v1` for that version, or `all` to include future versions.'),
        secrets: z
          .array(
            z
              .string()
              .max(128)
              .regex(/^[A-Z][A-Z0-9_]*$/, 'must be the name of a secret'),
          )
          .max(200)
          .default([])
          .describe('Names of secrets. A run gets those that its agent declares.'),
        scopes: z
          .array(scope)
          .max(10)
          .default([])
          .describe('Parts of the workspace that the keys of its runs may access.'),
        egress: z
          .array(
            z
              .string()
              .max(260)
              .regex(/^[^\s:]+:\d{1,5}$/, 'must be "host:port", such as "db.example.com:5432"')
              .superRefine((target, context) => {
                const problem = egressTargetProblem(target);
                if (problem !== undefined) context.addIssue({ code: 'custom', message: problem });
              })
              .transform((target) => target.toLowerCase()),
          )
          .max(100)
          .default([])
          .describe('Databases and other servers that it may connect to, as `host:port` of `egress` in its manifest.'),
      }),
    },
    response: { 200: z.object({ grant, created: z.boolean() }) },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
  {
    ...row,
    operationId: 'deleteGrant',
    method: 'DELETE',
    path: GRANT,
    summary: 'Revoke the grant of an agent',
    request: { headers },
    response: { 200: z.object({ deleted: z.literal(true) }) },
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
]);
