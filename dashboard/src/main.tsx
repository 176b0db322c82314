import './theme.css';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { I18nProvider } from 'react-aria-components/I18nProvider';
import { createRoot } from 'react-dom/client';
import { createQueryClient } from './api/query.ts';
import { createPages } from './router.tsx';

const queries = createQueryClient(() => {
  const { pathname, searchStr } = router.state.location;
  if (pathname !== '/login')
    void router.navigate({ to: '/login', search: { to: pathname + searchStr }, replace: true });
});
const router = createPages(queries);

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    {/* The build includes only its strings. */}
    <I18nProvider locale="en-US">
      <QueryClientProvider client={queries}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </I18nProvider>
  </StrictMode>,
);
