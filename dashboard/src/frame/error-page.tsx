import { type ErrorComponentProps, useRouter } from '@tanstack/react-router';
import { ApiError } from '../api-error.ts';
import { ErrorBox } from '../ui/error-box.tsx';
import { Page } from '../ui/page.tsx';

/** Replaces a page that failed; the frame around it stays. */
export function ErrorPage({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  // The redirect to the sign-in page has already started.
  if (error instanceof ApiError && error.status === 401) return null;
  const retry = () => {
    reset();
    void router.options.context.queries.invalidateQueries();
    void router.invalidate();
  };
  return (
    <Page title="This page failed">
      <ErrorBox error={error} onRetry={retry} />
    </Page>
  );
}
