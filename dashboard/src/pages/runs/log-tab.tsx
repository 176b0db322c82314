import { useNavigate, useSearch } from '@tanstack/react-router';
import { useMemo } from 'react';
import { Select } from '../../ui/field.tsx';
import { LogView } from '../../ui/text/log-view.tsx';
import { type LogPiece, logLines } from './log-lines.ts';

interface LogSearch {
  readonly stream?: LogPiece['stream'];
  readonly find?: string;
}

/** Output of a run from its start, live. */
export function LogTab({
  name,
  pieces,
  isRunning,
  isOver,
}: {
  readonly name: string;
  readonly pieces: readonly LogPiece[];
  readonly isRunning: boolean;
  /** Whether the output is complete. */
  readonly isOver: boolean;
}) {
  const { stream, find = '' } = useSearch({ strict: false }) as LogSearch;
  const navigate = useNavigate();
  const change = (next: LogSearch) =>
    void navigate({ to: '.', search: (old: object) => ({ ...old, ...next }), replace: true } as never);
  const lines = useMemo(() => logLines(pieces, stream), [pieces, stream]);
  if (pieces.length === 0) {
    return <p className="text-soft">{isOver ? 'No logs.' : 'No logs yet.'}</p>;
  }
  return (
    <LogView
      label="Log of the run"
      lines={lines}
      find={find}
      onFind={(text) => change({ find: text || undefined })}
      choice={
        <Select
          label="Stream"
          isLabelHidden
          value={stream ?? ''}
          onChange={(next) => change({ stream: (next || undefined) as LogSearch['stream'] })}
          choices={[
            { id: '', label: 'stdout and stderr' },
            { id: 'stdout', label: 'stdout' },
            { id: 'stderr', label: 'stderr' },
          ]}
        />
      }
      name={`${name}-log.txt`}
      whole={() => textOf(pieces, stream)}
      isLive={isRunning}
      empty={<p className="text-soft">No logs on {stream}.</p>}
    />
  );
}

const textOf = (pieces: readonly LogPiece[], only?: LogPiece['stream']): string =>
  pieces.map(({ stream, text }) => (only === undefined || stream === only ? text : '')).join('');
