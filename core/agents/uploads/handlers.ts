import { PlatformError } from '#core/base/errors.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { uploadRoutes } from './routes.ts';
import { createUpload } from './store.ts';

type UploadDeps = Pick<Deps, 'uploadForms' | 'counters' | 'ids' | 'clock' | 'config'>;

export const uploadHandlers = (deps: UploadDeps): Handlers<typeof uploadRoutes> => ({
  async createUpload({ caller, body }) {
    if (caller.limits?.scope === 'publish' && body.purpose !== 'bundle') {
      throw new PlatformError('FORBIDDEN', 'body.purpose: a key with the scope "publish" may upload a "bundle" only.');
    }
    return { status: 201, body: await createUpload(deps, caller.workspace, body.purpose) };
  },
});
