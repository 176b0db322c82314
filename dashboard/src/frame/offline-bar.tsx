import { useQuery } from '@tanstack/react-query';
import { WifiOff } from 'lucide-react';
import { useEffect } from 'react';
import { call } from '../api/client.ts';
import { ApiError } from '../api-error.ts';

const CHECK_MS = 15_000;
const ANXIOUS_CHECK_MS = 2_000;

/** Shows that the platform is unreachable; data that was already fetched stays on the page. */
export function OfflineBar() {
  const { error, refetch } = useQuery({
    queryKey: ['getHealth', {}],
    queryFn: ({ signal }) => call('getHealth', {}, { signal }) as Promise<unknown>,
    refetchInterval: ({ state }) => (state.status === 'error' ? ANXIOUS_CHECK_MS : CHECK_MS),
    networkMode: 'always',
    // The page that shows this bar was just loaded from the platform.
    initialData: null,
    retry: 1,
    staleTime: CHECK_MS,
  });
  useEffect(() => {
    // The browser only knows its network state, and the platform may run on this machine.
    const look = () => void refetch();
    addEventListener('offline', look);
    addEventListener('online', look);
    return () => {
      removeEventListener('offline', look);
      removeEventListener('online', look);
    };
  }, [refetch]);
  if (!(error instanceof ApiError) || error.status !== 0) return null;
  return (
    <div
      role="alert"
      className="sticky top-0 z-30 flex items-center justify-center gap-2 bg-warn-ground px-4 py-1.5 text-warn"
    >
      <WifiOff size={15} aria-hidden />
      The platform is unreachable. The data shown may be outdated; this page reconnects automatically.
    </div>
  );
}
