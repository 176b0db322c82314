import { getRouteApi } from '@tanstack/react-router';
import { ScrollText } from 'lucide-react';
import { useMemo } from 'react';
import { COMMAND } from '../../base.ts';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { LogView } from '../../ui/text/log-view.tsx';
import type { Service } from './service-state.ts';
import { type Severity, useServiceLog } from './use-service-log.ts';

const route = getRouteApi('/signed-in/$workspace/services/$service');
const LEVELS = [
  { id: '', label: 'All lines' },
  { id: 'INFO', label: 'Info and above' },
  { id: 'WARNING', label: 'Warnings and above' },
  { id: 'ERROR', label: 'Errors and above' },
  { id: 'CRITICAL', label: 'Critical' },
];

/** What the service prints, as it prints it. The level is the server's: of errors alone, it has older ones, too. */
export function LogsTab({ service, isPaused }: { readonly service: Service; readonly isPaused: boolean }) {
  const { level = '', q = '' } = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: { readonly level?: string; readonly q?: string }) =>
    void navigate({ search: (now) => ({ ...now, ...next }), replace: true });
  const severity = LEVELS.some(({ id }) => id === level) && level !== '' ? (level as Severity) : undefined;
  const { data, error, refetch } = useServiceLog(service.id, severity, isPaused);
  const lines = useMemo(
    () =>
      (data?.lines ?? []).map(({ key, timestamp, severity: level, source, message }) => ({
        ...{ key, at: timestamp, level, source, text: message },
      })),
    [data],
  );
  return (
    <>
      {error && <ErrorBox error={error} title="The log is currently unavailable" onRetry={() => void refetch()} />}
      <LogView
        label="Log of the service"
        lines={lines}
        find={q}
        onFind={(text) => change({ q: text || undefined })}
        choice={
          <Select
            label="Level"
            isLabelHidden
            choices={LEVELS}
            value={severity ?? ''}
            onChange={(next) => change({ level: next || undefined })}
          />
        }
        name={`${service.service_name}.log`}
        isLive
        empty={
          <>
            {!data && !error && <Loading />}
            {data && (
              <Empty
                icon={ScrollText}
                title={severity === undefined ? 'No logs yet' : 'No logs of this level yet'}
                command={`${COMMAND} service logs ${service.id}`}
              >
                The output of the app appears here. To follow it from a terminal:
              </Empty>
            )}
          </>
        }
      />
    </>
  );
}
