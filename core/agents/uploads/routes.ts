import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';

export const uploadRoutes = defineRoutes([
  {
    operationId: 'createUpload',
    method: 'POST',
    path: '/uploads',
    summary: 'Create an upload form for content that is too large for a request',
    fn: 'uploads',
    auth: 'key',
    agents: true,
    forPublishing: true,
    request: {
      body: z.object({
        purpose: z
          .enum(['call', 'bundle'])
          .describe(
            '`call`: a file or the JSON input of an agent call. `bundle`: the code of an agent, or the files of a skill.',
          ),
      }),
    },
    response: {
      201: z.object({
        upload_id: z.string().describe('Id by which a call or a bundle upload refers to the content.'),
        url: z.url().describe('POST the form here, without a key.'),
        fields: z.record(z.string(), z.string()).describe('Parts of the form; the part `file` comes after them.'),
        max_bytes: z.int(),
        expires_at: z.iso.datetime().describe('The content must be uploaded and used by then.'),
      }),
    },
  },
]);
