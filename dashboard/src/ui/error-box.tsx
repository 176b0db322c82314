import { CircleAlert, RefreshCw } from 'lucide-react';
import { useEffect, useState } from 'react';
import { ApiError } from '../api-error.ts';
import { Button } from './button.tsx';
import { CopyIcon } from './copy.tsx';
import { OutsideLink } from './link.tsx';
import { Code } from './text/code.tsx';

/** An error with its message, hint, code, request id and a retry button. RATE_LIMITED shows a countdown. */
export function ErrorBox({
  error,
  title,
  onRetry,
}: {
  readonly error: unknown;
  readonly title?: string;
  readonly onRetry?: () => void;
}) {
  const shown = error instanceof ApiError ? error : undefined;
  const wait = useCountdown(shown?.retryAfter);
  return (
    <div role="alert" className="flex gap-2 rounded-lg border border-line bg-bad-ground p-3">
      <CircleAlert size={16} aria-hidden className="mt-0.5 shrink-0 text-bad" />
      <div className="flex min-w-0 grow flex-col gap-1">
        {title && <p className="font-medium">{title}</p>}
        <p>{(error as Error | null)?.message ?? 'Something went wrong.'}</p>
        {shown?.hint && <p>{shown.hint}</p>}
        {shown && (
          <p className="flex flex-wrap items-center gap-2 text-soft">
            <Code>{shown.code}</Code>
            {shown.docsUrl && <OutsideLink href={shown.docsUrl}>About this error</OutsideLink>}
            {shown.requestId && (
              <span className="flex items-center gap-1">
                Request <Code>{shown.requestId}</Code>
                <CopyIcon text={shown.requestId} label="Copy request ID" />
              </span>
            )}
          </p>
        )}
        {onRetry && (
          <div>
            <Button icon={RefreshCw} onPress={onRetry} isDisabled={wait > 0}>
              {wait > 0 ? `Try again in ${wait} s` : 'Try again'}
            </Button>
          </div>
        )}
      </div>
    </div>
  );
}

function useCountdown(seconds = 0): number {
  const [left, setLeft] = useState(seconds);
  useEffect(() => setLeft(seconds), [seconds]);
  useEffect(() => {
    if (left <= 0) return;
    const timer = setTimeout(() => setLeft(left - 1), 1000);
    return () => clearTimeout(timer);
  }, [left]);
  return left;
}
