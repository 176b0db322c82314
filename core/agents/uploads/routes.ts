import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';

export const uploadRoutes = defineRoutes([
  {
    operationId: 'createUpload',
    method: 'POST',
    path: '/uploads',
    summary: 'Get a form for uploading what is too large for a request, ahead of the request that names it',
    fn: 'uploads',
    auth: 'key',
    agents: true,
    request: {
      body: z.object({
        purpose: z
          .enum(['call', 'bundle'])
          .describe('`call`: a file or the JSON input of an agent call. `bundle`: the code of an agent.'),
      }),
    },
    response: {
      201: z.object({
        upload_id: z.string().describe('What the call or the bundle upload names it by.'),
        url: z.url().describe('POST the form here, without a key.'),
        fields: z.record(z.string(), z.string()).describe('Parts of the form; the part `file` comes after them.'),
        max_bytes: z.int(),
        expires_at: z.iso.datetime().describe('Until then it can be uploaded and named.'),
      }),
    },
  },
]);
