import { getRouteApi } from '@tanstack/react-router';
import { Download, ScrollText, Search } from 'lucide-react';
import { Button } from '../../ui/button.tsx';
import { CopyButton } from '../../ui/copy.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select, TextField } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { LogView } from '../../ui/log-view.tsx';
import { count } from '../../ui/numbers.tsx';
import { download } from '../../ui/viewer.tsx';
import type { KeptLine } from './service-log.ts';
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
  const wanted = q.toLowerCase();
  const shown = (data?.lines ?? []).filter((line) => line.message.toLowerCase().includes(wanted));
  return (
    <>
      <div className="flex flex-wrap items-end gap-2" data-filter>
        <div className="w-64 max-w-full">
          <TextField
            label="Filter lines"
            isLabelHidden
            placeholder="Filter lines"
            icon={<Search size={14} aria-hidden />}
            value={q}
            onChange={(text) => change({ q: text })}
          />
        </div>
        <div className="w-48">
          <Select
            label="Level"
            isLabelHidden
            choices={LEVELS}
            value={severity ?? ''}
            onChange={(next) => change({ level: next })}
          />
        </div>
        <span className="flex h-8 grow items-center text-soft">{count(shown.length)} lines</span>
        <CopyButton text={() => textOf(shown)} />
        <Button icon={Download} onPress={() => download(`${service.service_name}.log`, textOf(shown))}>
          Download
        </Button>
      </div>
      {error && <ErrorBox error={error} title="The log cannot be read now" onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && shown.length === 0 && (
        <Empty
          icon={ScrollText}
          title={data.lines.length === 0 ? 'Nothing was printed yet' : 'No line has this text'}
          command={`npx platform service logs ${service.id}`}
        >
          What the app prints appears here. In a terminal:
        </Empty>
      )}
      {shown.length > 0 && (
        <LogView
          key={severity ?? 'all'}
          label="Log of the service"
          lines={shown.map(({ key, timestamp, severity: each, message }) => ({
            key,
            at: timestamp,
            level: each,
            text: message,
          }))}
        />
      )}
    </>
  );
}

const textOf = (lines: readonly KeptLine[]): string =>
  lines.map(({ timestamp, severity, message }) => `${timestamp} ${severity ?? ''} ${message}\n`).join('');
