import { lazy } from '#core/base/lazy.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { scheduleTriggerRoutes } from './routes.ts';

/** Loaded lazily to keep the cold start of other calls fast. */
const trigger = lazy(() => import('./trigger.ts'));

export const scheduleTriggerHandlers = (deps: Deps): Handlers<typeof scheduleTriggerRoutes> => ({
  async triggerSchedule(asked) {
    const { triggerSchedule } = await trigger();
    return triggerSchedule(deps)(asked);
  },
});
