import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page } from '../../ui/page.tsx';
import { ShownOnce } from '../../ui/shown-once.tsx';
import { ScheduleForm } from './schedule-form.tsx';
import { useWarnings } from './warnings.tsx';

const route = getRouteApi('/signed-in/$workspace/schedules/new');

/** Creates a schedule; `from` copies an existing one. */
export function NewSchedulePage() {
  const { id: workspace_id, slug } = useWorkspace();
  const { from, agent } = route.useSearch();
  const navigate = route.useNavigate();
  const model = useOperation(
    'getSchedule',
    { params: { workspace_id, schedule_id: from ?? '' } },
    { enabled: from !== undefined },
  );
  const create = useAction('createSchedule', { stale: ['listSchedules', 'listUpcoming'], silent: true });
  const { keep } = useWarnings();
  const [made, setMade] = useState<{ readonly id: string; readonly url: string }>();
  const show = (schedule: string) =>
    navigate({ to: '/$workspace/schedules/$schedule', params: { workspace: slug, schedule } });
  const isReady = from === undefined || model.data !== undefined;
  return (
    <Page title="New schedule" description="Runs an agent on a cron schedule or by webhook.">
      {model.error && <ErrorBox error={model.error} />}
      {!isReady && !model.error && <Loading />}
      {isReady && (
        <ScheduleForm
          isNew
          of={model.data?.schedule}
          agent={agent}
          error={create.error}
          isPending={create.isPending}
          onSubmit={(body) =>
            create.mutate(
              { params: { workspace_id }, body },
              {
                onSuccess: ({ schedule: { id, webhook_url }, warnings }) => {
                  keep(id, warnings);
                  if (webhook_url === undefined) void show(id);
                  else setMade({ id, url: webhook_url });
                },
              },
            )
          }
          onClose={() => void navigate({ to: '/$workspace/schedules', params: { workspace: slug } })}
        />
      )}
      {made && <ShownOnce title="Webhook URL" text={made.url} onClose={() => void show(made.id)} />}
    </Page>
  );
}
